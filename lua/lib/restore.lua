-- restore: what a client knows shows whether the server lost data. The table is in lua/README.md.
-- NEEDS: memory known_epoch known_stamp known_token known_pace seat_epoch seat_ticket seat_token
-- NEEDS: known_longest own_pace left_us raw now
-- SETS: highest believed stamp token epoch recover_from recover_until recover_pace longest holder_end cut
-- `left_us`: how long a lease may last that the client asks for, or has, beside those that it was told of;
-- `own_pace`: the client's own heartbeat interval.
local highest = max(known_epoch, known_stamp, known_token, seat_epoch, seat_ticket, seat_token)
-- A stamp that this server gave is never implausible, whatever its clock shows now. Beyond the last stamp only TIME
-- decides: otherwise one implausible stamp that was believed would make room for the next.
local believed = highest <= stamp or highest <= raw + DAY_US
if believed then
  -- Every number in a memory or seat was stored before. So a higher one under the same epoch proves a loss.
  local knows = memory ~= '' -- a stranger knows of no loss
  local rollback = knows and (max(known_epoch, seat_epoch) > epoch
    or known_epoch == epoch and (known_stamp > stamp or known_token > token)
    or seat_epoch == epoch and (seat_ticket > stamp or seat_token > token))
  local older = knows and (known_epoch < epoch or seat_epoch > 0 and seat_epoch < epoch)
  local anew, returns = older and not rollback and recover_until == 0, older and now < recover_until
  stamp = max(stamp, highest)
  -- What was granted before `token` is over; but one above may be a token that was passed over.
  local lasts_us = max(known_token, seat_token) + 1 < token and 0 or max(left_us, known_longest)
  if rollback or anew then
    stamp = max(raw, stamp + 1)
    epoch = stamp
    recover_from, recover_pace = now, max(recover_pace, pace)
  end
  if rollback or anew or returns then
    -- Every waiter needs the time to notice the loss: the slowest sends one heartbeat per pace. A client that returns
    -- later may know of a slower waiter, or of a longer lease, than the one that opened the recovery.
    recover_pace, longest = max(recover_pace, known_pace, own_pace), max(longest, lasts_us)
    recover_until = max(recover_until, recover_from + max(3 * recover_pace, lasts_us))
  end
  if now < recover_until then
    -- A lease from before the loss may be long over, and so is one that is older than a grant of which a client
    -- knows. (To break a lease takes one token.) If its holder still believes in it, it re-asserts it. A lease that
    -- was granted after the loss stays.
    if holder ~= '' and (rollback or known_token > holder_token + broken) then
      holder_end, cut = min(holder_end, recover_until), 1
    end
    token = max(token, known_token)
  end
end
