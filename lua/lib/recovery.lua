-- recovery: until when the recovery lasts, in which nothing is granted. It waits for places, and for leases unless the
-- only one is back. It is over for good when that has passed (lib/clock.lua), or with a grant (lib/promote.lua).
-- NEEDS: recover_from wait_places wait_leases sole token
-- SETS: recover_until
recover_until = recover_from
if wait_places > 0 or wait_leases > 0 then
  recover_until = recover_from + max(3 * wait_places, sole > 0 and sole >= token and 0 or wait_leases)
end
