-- restore: what a client knows shows whether the server lost data.
-- NEEDS: brought last their_epoch floor last_token left_us pace_us liveness_us raw now
-- SETS: believed left_us stamp token epoch recover_from recover_until recover_pace longest holder_end cut
-- `brought` is the ticket or token (0: none), `last` the last one given, `their_epoch` the epoch under which the server
-- last confirmed it (0: never), or the client's latest epoch if it brings neither. What the client knows of the lock: `floor`, the highest stamp that it ever saw; `last_token`,
-- the last grant that it heard of; `left_us`, how long a lease may last that was granted or renewed just before the loss
-- (for a holder: what is left of its own); `pace_us`, the longest heartbeat interval among the waiters.
local believed
do
  local ABSURD_US = 86400000000
  local highest = max(their_epoch, brought, floor, last_token)
  -- A stamp that this server gave is never absurd, whatever its clock shows now. Beyond the last stamp only TIME decides:
  -- otherwise one absurd stamp that was believed would make room for the next.
  believed = highest <= stamp or highest <= raw + ABSURD_US
  if believed then
    -- Every number in a reply was stored before. So a higher one under the same epoch proves a loss. A token proves it even
    -- if other clients have been given stamps since.
    local nameless = their_epoch == 0
    local beyond = highest > stamp or brought > last and not nameless
    local rolled_back = their_epoch > epoch or (their_epoch == epoch or nameless) and beyond
    local made_anew = their_epoch < epoch and not nameless and recover_until == 0
    stamp = max(stamp, highest)
    -- The lease that the client knows of is over if the lock was granted again since then.
    if last_token < token then left_us = 0 end
    if rolled_back or made_anew then
      stamp = max(raw, stamp + 1)
      epoch = stamp
      recover_from, recover_pace = now, max(recover_pace, pace, math.ceil(liveness_us / 3))
    end
    if rolled_back or made_anew or their_epoch < epoch and not nameless and now < recover_until then
      -- Every waiter needs the time to notice the loss: the slowest sends one heartbeat per pace. A client that returns
      -- later may know of a slower waiter, or of a longer lease, than the one that opened the recovery.
      recover_pace, longest = max(recover_pace, pace_us), max(longest, left_us)
      recover_until = max(recover_until, recover_from + max(3 * recover_pace, left_us))
    end
    if rolled_back and holder ~= '' then
      -- A lease from before the loss may be long over. If its holder still believes in it, it re-asserts it. If the state
      -- was made anew, the lease was granted after the loss and stays.
      holder_end, cut = min(holder_end, recover_until), 1
    end
    -- A lease that the client knows to be older than the last grant is not restored.
    if now < recover_until then token = max(token, last_token) end
  end
end
