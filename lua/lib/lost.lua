-- lost: a key of this lock is missing, so the rest of its data counts as lost too. A new epoch tells the clients, and
-- they bring back what they know. Stamp, token, epoch and clock are kept if the numbers are left.
-- NEEDS: lost found raw now own_pace longest
-- SETS: dropped stamp waiting found_waiting live_until pace pace_next pace_turn recover_from wait_places wait_leases
if lost then
  -- New stamps continue after those of the dropped queue.
  local last = not found and call('ZRANGE', waiters, '-1', '-1', 'WITHSCORES')[2]
  stamp = max(stamp, tonumber(last or 0))
  -- include open: the recovery
  dropped = true
  -- Without the numbers only the pace of the client that asks is known, and of an operator nothing. Then nobody is
  -- waited for, and the next client that returns opens the recovery.
  wait_places, wait_leases = max(wait_places, own_pace), max(wait_leases, longest, live_until - now)
  if wait_places + wait_leases == 0 then recover_from = 0 end
  waiting, found_waiting, live_until, pace, pace_next, pace_turn = 0, 0, 0, 0, 0, 0
  -- include recovery
end
