-- commit: makes the planned writes in the one order that is safe in a slot that is migrating (a script that empties a
-- key and touches it again is cut in the middle): add, set TTLs, remove with one command per key, publish. A `lenient`
-- script begins with a write that memory limits do not refuse, which lets the rest of it through.
local DAY_MS, HOUR_MS = 86400000, 3600000
local stands = holder ~= '' or waiting > 0
-- Stamps that are ahead of TIME since it was set back must be remembered until it has caught up.
local left_us = math.max(recover_until - now, stamp - raw, 0)
-- An idle lock is forgotten after an hour if it was granted once only: a million names may be used like that. Otherwise
-- after a day, because tokens must rise over a clock that jumps forwards and back.
local idle_ms = grants > 1 and DAY_MS or HOUR_MS
local ttl
if stands then
  left_us = math.max(left_us, math.max(holder_end, last_session) - now)
  ttl = string.format('%.0f', DAY_MS + math.ceil(left_us / 1000))
else
  ttl = string.format('%.0f', idle_ms + math.ceil(left_us / 1000))
end
if lenient then redis.call('PEXPIRE', state, ttl) end

if stands or epoch > 0 then
  local numbers = struct.pack(NUMBERS, stamp, token, epoch, now, skew, pace, pace_until, recover_until, recover_for, grants,
    stands and longest or 0)
  redis.call('HSET', state, 'numbers', numbers)
end
if holder ~= '' and (holder ~= found_holder or holder_end ~= found_end) then
  redis.call('ZADD', leases, holder_end, holder)
end
if joins and not queued and holder ~= contender then redis.call('ZADD', queue, place, contender) end
if prolonged then redis.call('ZADD', sessions, prolonged_until, prolonged) end
if #new_entries > 0 then redis.call('HSET', entries, unpack(new_entries)) end

if not lenient or not found then redis.call('PEXPIRE', state, ttl) end
if stands then redis.call('PEXPIRE', entries, ttl) end
if holder ~= '' then redis.call('PEXPIRE', leases, ttl) end
if waiting > 0 then
  redis.call('PEXPIRE', queue, ttl)
  redis.call('PEXPIRE', sessions, ttl)
end

if not stands then
  redis.call('DEL', queue, sessions, leases, entries)
else
  if #leaving > 0 then redis.call('ZREM', queue, unpack(leaving)) end
  if waiting == 0 then
    redis.call('DEL', sessions)
  elseif #ended > 0 then
    redis.call('ZREM', sessions, unpack(ended))
  end
  -- Their entries go with the lease or the place, unless they have the other now.
  local gone = {}
  if found_holder ~= '' and found_holder ~= holder then
    redis.call('ZREM', leases, found_holder)
    if not (joins and found_holder == contender) then gone[1] = found_holder end
  end
  for i = 1, #leaving do
    if leaving[i] ~= holder then gone[#gone + 1] = leaving[i] end
  end
  if #gone > 0 then redis.call('HDEL', entries, unpack(gone)) end
end
-- A client without the right to a channel must not undo what was written: heartbeats cover for a lost message.
for i = 1, #messages do
  local its_entry, kind, its_id, left_us = unpack(messages[i])
  local channel = its_entry[CHANNEL]
  -- Redis turns whole numbers below 2^53 into exact text by itself, in commands and in replies; Lua alone would not. Only
  -- the numbers are formatted: %s ends a text at its first NUL, and a name may have one.
  local message = kind .. ' ' .. its_id .. string.format(' %.0f %.0f %.0f ', its_entry[TOKEN], its_entry[TICKET], left_us)
    .. its_entry[SECRET] .. ' ' .. queue
  -- A channel with a hash tag belongs to the slot of the lock. Up to Redis 6 there are none, and all nodes are told.
  local sent = string.find(channel, '{', 1, true) and redis.pcall('SPUBLISH', channel, message)
  if type(sent) ~= 'number' then redis.pcall('PUBLISH', channel, message) end
end
