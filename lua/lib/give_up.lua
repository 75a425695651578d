-- give_up: an id no longer wants what it has, be it the lease or a place in the queue.
local function give_up(id)
  if holder == id then
    if now < recover_until and held then pass_over(held[TOKEN]) end
    drop_lease(id)
    return 'released'
  elseif lapsed == id then
    return 'expired'
  elseif redis.call('ZSCORE', queue, id) and not gone.queue[id] then
    drop_waiter(id)
    return 'left'
  end
  return 'unknown'
end
