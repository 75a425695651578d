-- give_up: an id no longer wants what it has, be it the lease or a place in the queue.
local function give_up(id)
  if holder == id then
    if now < recover_until and held then pass_over(held[TOKEN]) end
    drop_lease()
    return 'released'
  elseif lapsed == id then
    return 'expired'
  elseif waiting > 0 and not leaving[id] and redis.call('ZSCORE', queue, id) then
    drop_waiter(id)
    return 'left'
  end
  return 'unknown'
end
