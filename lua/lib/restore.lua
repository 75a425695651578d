-- restore: what a client knows shows whether the server lost data. The rules are in lua/README.md.
-- NEEDS: known_epoch known_stamp known_token known_longest known_pace seat_epoch seat_ticket seat_token
-- NEEDS: own_pace left_us raw now recover_until
-- SETS: believed dropped stamp token wait_places wait_leases longest
-- `left_us`: how long a lease may last that the client asks for, or has, beside those that it was told of;
-- `own_pace`: the client's own heartbeat interval.
local believed
do
  local highest = max(known_epoch, known_stamp, known_token, seat_epoch, seat_ticket, seat_token)
  -- A stamp that this server gave is never implausible, whatever its clock shows now. Beyond the last stamp only TIME
  -- decides: otherwise one implausible stamp that was believed would make room for the next.
  believed = highest <= stamp or highest <= raw + DAY_US
  if believed then
    -- Every number in a memory or seat was stored before. So a higher one under the same epoch proves a loss.
    local knows = known_epoch > 0 -- a stranger knows of no loss
    local ahead = knows and (known_epoch > epoch or seat_epoch > epoch
      or known_epoch == epoch and (known_stamp > stamp or known_token > token)
      or seat_epoch == epoch and (seat_ticket > stamp or seat_token > token))
    local behind = knows and (known_epoch < epoch or seat_epoch > 0 and seat_epoch < epoch)
    local opens = ahead or behind and recover_from == 0
    if highest > stamp then stamp = highest end
    if opens then
      -- include open: the recovery
    end
    if opens or behind and now < recover_until then
      -- Nothing is lowered: who returns later may know of a slower waiter, a longer lease or a later grant.
      local lasts_us = max(left_us, known_longest)
      wait_places, wait_leases = max(wait_places, known_pace, own_pace), max(wait_leases, lasts_us)
      token, longest = max(token, known_token, seat_token), max(longest, lasts_us)
      -- include recovery
    end
    -- Leases of an older state may be over, and granted to others since. Those that were granted after the loss stay.
    dropped = dropped or ahead
  end
end
