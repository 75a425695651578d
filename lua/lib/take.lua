-- take: reads the lease of a slot. If it was not read before, it does not count as held until `sweep`.
-- NEEDS: slot held limit limited leases
-- SETS: leases held limited
-- include lease: slot → lease
if not leases[holder] then
  leases[#leases + 1], leases[holder], held = lease, lease, held - 1
  if its_most == limit then limited = limited - 1 end
end
