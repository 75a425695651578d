-- found: what stands there. Everything is read before anything is written.
local NUMBERS = '<ddddddddddd' -- one field, because every number written as text would cost as much as a command
local stamp, token, epoch, seen, skew, pace, pace_until, recover_until, recover_for, grants, longest =
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
local found = redis.call('HGET', state, 'numbers')
if found then
  stamp, token, epoch, seen, skew, pace, pace_until, recover_until, recover_for, grants, longest =
    struct.unpack(NUMBERS, found)
end

local waiting = redis.call('ZCARD', queue)
if stamp == 0 and waiting > 0 then
  -- The state was lost and the queue was not: whoever comes now goes behind those who stand in it.
  stamp = tonumber(redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2])
end
local last_session = 0
if redis.call('ZCARD', sessions) > 0 then
  last_session = tonumber(redis.call('ZRANGE', sessions, '-1', '-1', 'WITHSCORES')[2])
end
local lease = redis.call('ZRANGE', leases, '0', '0', 'WITHSCORES')
local holder, holder_end = lease[1] or '', tonumber(lease[2] or 0)
local found_holder, found_end = holder, holder_end

-- What an entry is made of. The place of each value is part of the layout.
local LEASE, LIVENESS, CHANNEL, SECRET, LABEL, OWNER, TOKEN, TICKET, BROKEN, CUT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local function entry_of(id)
  local packed = redis.call('HGET', entries, id)
  return packed and cmsgpack.unpack(packed)
end
local function client_of(id) return string.match(id, '^[^.]*') end

-- The holder's entry. Read in every case: a key of another type must be found before the first write. Where it was
-- lost, the last token still tells which lease this is.
local held = entry_of(holder) or holder ~= '' and token > 0 and {0, 0, '', '', '', '', token, token} or nil
if held then
  -- And where the state was lost, the entry still tells the last token.
  token = math.max(token, held[TOKEN])
  stamp = math.max(stamp, token)
end
