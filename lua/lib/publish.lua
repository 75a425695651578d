-- publish: tells holders of their grants, and of a lease that an operator breaks.
-- PACKS: kind left_us memory seat id secret lock
-- NEEDS: messages
-- A client without the right to a channel must not undo the writes: heartbeats make up for the lost message.
for i = 1, #messages do
  local lease, kind, entry, its_left_us = unpack(messages[i])
  -- include texts: entry → secret, tag
  local message = struct.pack('<Bc0dBBdddddBBdddHHHc0Bc0Hc0', #kind, kind, its_left_us, MEMORY_SIZE, VERSION, epoch,
    stamp, token, longest, max(pace, wait_places), SEAT_SIZE, VERSION, epoch, lease.ticket, lease.token, lease.slot,
    lease.most, #lease.id, lease.id, #secret, secret, #lock, lock)
  -- The client hears one channel for all its locks; in a cluster one for each slot, with the hash tag of a lock.
  local to = string.match(lock, '^[^{]*') .. (tag ~= '' and '{' .. tag .. '}:' or '') .. 'client:'
    .. string.sub(lease.id, 1, string.find(lease.id, '.', 1, true) - 1)
  -- Up to Redis 6 no channel belongs to a slot: all nodes get it.
  local sent = tag ~= '' and redis.pcall('SPUBLISH', to, message)
  if type(sent) ~= 'number' then redis.pcall('PUBLISH', to, message) end
end
