-- restore: what a client knows shows whether the server lost data. The table is in lua/README.md.
-- NEEDS: known_epoch known_stamp known_token known_longest known_pace seat_epoch seat_ticket seat_token
-- NEEDS: own_pace left_us raw now
-- SETS: highest believed dropped stamp token accounted recover_until recover_pace longest
-- `left_us`: how long a lease may last that the client asks for, or has, beside those that it was told of;
-- `own_pace`: the client's own heartbeat interval.
local highest = max(known_epoch, known_stamp, known_token, seat_epoch, seat_ticket, seat_token)
-- A stamp that this server gave is never implausible, whatever its clock shows now. Beyond the last stamp only TIME
-- decides: otherwise one implausible stamp that was believed would make room for the next.
local believed = highest <= stamp or highest <= raw + DAY_US
if believed then
  -- Every number in a memory or seat was stored before. So a higher one under the same epoch proves a loss.
  local knows = known_epoch > 0 -- a stranger knows of no loss
  local rollback = knows and (known_epoch > epoch or seat_epoch > epoch
    or known_epoch == epoch and (known_stamp > stamp or known_token > token)
    or seat_epoch == epoch and (seat_ticket > stamp or seat_token > token))
  local older = knows and (known_epoch < epoch or seat_epoch > 0 and seat_epoch < epoch)
  local opens = rollback or older and recover_until == 0
  if highest > stamp then stamp = highest end
  if opens then
    -- include open: the recovery
  end
  if opens or older and now < recover_until then
    -- The lease that was thought to be the only one was not the latest.
    if accounted == 1 and max(known_token, seat_token) > token then accounted = 0 end
    -- Every waiter needs the time to notice the loss: the slowest sends one heartbeat per pace. A client that returns
    -- later may know of a slower waiter, or of a longer lease, than the one that opened the recovery.
    local lasts_us = max(left_us, known_longest)
    recover_pace, longest = max(recover_pace, known_pace, own_pace), max(longest, lasts_us)
    recover_until = max(recover_until, recover_from + max(3 * recover_pace, accounted > 0 and 0 or lasts_us))
  end
  if now < recover_until then token = max(token, known_token) end
  -- Leases of an older state may be over, and granted to others since. Those that were granted after the loss stay.
  dropped = dropped or rollback
end
