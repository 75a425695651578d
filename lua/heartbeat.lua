-- heartbeat: one session says that it is alive, for all of its waiters, and lets the queue move on where it can.
-- It creates no entries: what it does not know, the client re-enters.
-- KEYS: queue sessions leases entries state
-- ARGV: client liveness_us buffer_us heartbeat_us ids...
--   ids: the session's first waiters, in the order of their tickets
-- REPLY: alive rank | unknown
local client, liveness_us, buffer_us, heartbeat_us = unpack(ARGV)
liveness_us, buffer_us, heartbeat_us = tonumber(liveness_us), tonumber(buffer_us), tonumber(heartbeat_us)
-- include begin

local first, missing
for i = 5, #ARGV do
  if redis.call('ZSCORE', queue, ARGV[i]) then
    first = first or ARGV[i]
    missing = missing or redis.call('HEXISTS', entries, ARGV[i]) == 0 -- it could not be granted the lock
  elseif ARGV[i] ~= holder or held and held[CUT] then
    missing = true
  end
end
if first then
  -- include refresh
end
-- include promote
local lenient = true
-- include commit

local word, told = missing and 'unknown' or 'alive', {}
if first and not missing and not leaving[first] then told = {'rank', redis.call('ZRANK', queue, first)} end
-- include answer
