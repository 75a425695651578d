-- count: a lease counts among those that are held.
-- NEEDS: lease held claims limit limited first_end last_end
-- SETS: held claims limit limited first_end last_end
held, claims = held + 1, claims + lease.claim
if lease.ends < first_end then first_end = lease.ends end
if lease.ends > last_end then last_end = lease.ends end
if lease.most < limit then limit, limited = lease.most, 0 end
if lease.most == limit then limited = limited + 1 end
