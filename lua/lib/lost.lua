-- lost: a key of this lock is missing, so the rest of its data counts as lost too. A new epoch tells the clients, and they
-- bring back what they know. Stamp, token, epoch and clock are kept if the numbers are left.
-- NEEDS: lost found raw now
-- SETS: stamp epoch recover_until recover_for waiting found_waiting live_until longest broken cut claim holder holder_end found_holder lapsed
if lost then
  -- New stamps continue after those of the dropped queue.
  local last = not found and call('ZRANGE', waiters, '-1', '-1', 'WITHSCORES')[2]
  stamp = max(raw, stamp + 1, tonumber(last or 0) + 1)
  epoch = stamp
  if found then
    -- No other waiter is granted the lock before the last lease is over and the slowest waiter had the time to return.
    recover_for = max(recover_until - now, 3 * pace, live_until - now, longest)
    recover_until = now + recover_for
  end
  waiting, found_waiting, live_until, longest, broken, cut, claim = 0, 0, 0, 0, 0, 0, 0
  holder, holder_end, found_holder, lapsed = '', 0, '', ''
end
