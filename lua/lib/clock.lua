-- The state as found, the lock clock and the stamps. All times are whole µs below 2^53, exact in Lua and in scores.
local STATE = {'stamp', 'token', 'epoch', 'seen', 'skew', 'pace', 'recover_until'}
local found = redis.call('HMGET', state, unpack(STATE))
for i = 1, #STATE do found[i] = tonumber(found[i] or 0) end
local stamp, token, epoch, seen, skew, pace, recover_until = unpack(found)

local raw = server_time()
local now = raw + skew
local last_session = tonumber(redis.call('ZRANGE', sessions, -1, -1, 'WITHSCORES')[2] or 0)
if last_session <= seen then
  pace = 0
elseif seen > 0 then
  -- Somebody waits and would have called: a longer silence is an outage or a jump, not evidence that anybody died.
  now = math.min(now, seen + 2 * pace)
end
now = math.max(now, seen)
skew = now - raw

-- A hybrid logical clock for tickets, tokens and epochs. From TIME itself: the lock clock may lag behind it.
local least = 0 -- the highest stamp that a caller with nothing to restore has seen
local function next_stamp()
  stamp = math.max(raw, stamp + 1, least + 1)
  return stamp
end
