-- give_up: an id no longer wants what it has, be it the lease or a place in the queue.
if holder == id then
  word = 'released'
  -- In a recovery a lease comes back if no newer token is known. One that was ended on purpose must not.
  if now < recover_until and held then token = math.max(token, held[TOKEN] + 1) end
  stamp = math.max(stamp, token)
  holder, holder_end, held = '', 0, nil
elseif lapsed == id then
  word = 'expired'
elseif waiting > 0 and not leaving[id] and redis.call('ZSCORE', queue, id) then
  word = 'left'
  leaving[#leaving + 1], leaving[id], waiting = id, true, waiting - 1
end
