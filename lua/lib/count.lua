-- count: a lease counts among those that are held.
-- NEEDS: lease held limit limited first_end last_end
-- SETS: held limit limited first_end last_end
held = held + 1
if lease.ends < first_end then first_end = lease.ends end
if lease.ends > last_end then last_end = lease.ends end
if lease.most < limit then limit, limited = lease.most, 0 end
if lease.most == limit then limited = limited + 1 end
