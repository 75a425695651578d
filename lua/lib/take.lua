-- take: reads the lease of a slot. If it was not read before, it does not count as held until `sweep`.
-- NEEDS: slot held claims limit limited leases
-- SETS: leases held claims limited first_end
-- include lease: slot → lease
if not leases[holder] then
  leases[#leases + 1], leases[holder], held, claims = lease, lease, held - 1, claims - claim
  if its_most == limit then limited = limited - 1 end
  if its_token == 0 then first_end = 0 end -- a tag without its lease: counters are made anew
end
