-- lost: a key of this lock is missing, so the rest of its data counts as lost too. A new epoch tells the clients, and
-- they bring back what they know. Stamp, token, epoch and clock are kept if the numbers are left.
-- NEEDS: lost found raw now
-- SETS: stamp epoch recover_from recover_until recover_pace waiting found_waiting live_until broken cut claim
-- SETS: holder holder_end found_holder lapsed
if lost then
  -- New stamps continue after those of the dropped queue.
  local last = not found and call('ZRANGE', waiters, '-1', '-1', 'WITHSCORES')[2]
  stamp = max(raw, stamp + 1, tonumber(last or 0) + 1)
  epoch = stamp
  if found then
    -- No other waiter is granted the lock before the last lease is over and the slowest waiter had the time to return.
    recover_from, recover_pace = now, max(recover_pace, pace)
    recover_until = max(now + max(3 * recover_pace, longest), live_until)
  end
  waiting, found_waiting, live_until, broken, cut, claim = 0, 0, 0, 0, 0, 0
  holder, holder_end, found_holder, lapsed = '', 0, '', ''
end
