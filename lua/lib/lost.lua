-- lost: a key of this lock is missing, so the rest of its data counts as lost too. A new epoch tells the clients, and
-- they bring back what they know. Stamp, token, epoch and clock are kept if the numbers are left.
-- NEEDS: lost found raw now own_pace
-- SETS: dropped stamp waiting found_waiting live_until recover_until recover_pace
if lost then
  -- New stamps continue after those of the dropped queue.
  local last = not found and call('ZRANGE', waiters, '-1', '-1', 'WITHSCORES')[2]
  stamp = max(stamp, tonumber(last or 0))
  -- include open: the recovery
  dropped = true
  -- No other waiter is granted the lock before the last lease is over and the slowest waiter had the time to return.
  -- Without the numbers only the pace of the client that asks is known, and of an operator nothing.
  recover_pace = max(recover_pace, own_pace)
  local wait_us = max(3 * recover_pace, longest)
  recover_until = wait_us > 0 and max(now + wait_us, live_until) or 0
  waiting, found_waiting, live_until = 0, 0, 0
end
