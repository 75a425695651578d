-- heartbeat: keeps a session alive, for all of its waiters, and promotes the queue where it can.
-- It creates no entries: the client re-enters waiters that the server does not know.
-- KEYS: lock waiters
-- ARGV: client liveness_us buffer_us heartbeat_us epoch floor longest_us last_token pace_us ids...
--   epoch floor longest_us last_token pace_us: what the caller knows of the lock, see lib/restore.lua
--   ids: the session's first waiters, in the order of their tickets
-- REPLY: alive rank | unknown
local client, liveness_us, buffer_us, heartbeat_us, their_epoch, floor, longest_us, last_token, pace_us = unpack(ARGV)
liveness_us, buffer_us, heartbeat_us = tonumber(liveness_us), tonumber(buffer_us), tonumber(heartbeat_us)
their_epoch, floor, longest_us = tonumber(their_epoch), tonumber(floor), tonumber(longest_us)
last_token, pace_us = tonumber(last_token), tonumber(pace_us)
-- include keys
local named, joining = call('HMGET', lock, '', client .. '.', unpack(ARGV, 10)), false
local found, own_session = named[1], named[2]
-- include begin
local brought, last, left_us = 0, stamp, longest_us
-- include restore

local first, missing
for i = 10, #ARGV do
  local id = ARGV[i]
  if string.match(id, CLIENT_OF) ~= client then return redis.error_reply(BAD_ID) end
  if id == holder then
    missing = missing or cut == 1
  elseif named[i - 7] and id ~= found_holder and not lost then
    first = first or id
  else
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
if first and not missing and not leaving[first] then told = {'rank', call('ZRANK', waiters, first)} end
-- include answer
