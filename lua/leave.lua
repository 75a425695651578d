-- leave: waiters give up their places; a lease that was granted to one of them meanwhile is released.
-- KEYS: lock waiters
-- ARGV: liveness_us epoch floor longest_us last_token pace_us ids...
--   epoch floor longest_us last_token pace_us: what the caller knows of the lock, see lib/restore.lua
-- REPLY: left
local liveness_us, their_epoch, floor, longest_us, last_token, pace_us = unpack(ARGV)
liveness_us, their_epoch, floor = tonumber(liveness_us), tonumber(their_epoch), tonumber(floor)
longest_us, last_token, pace_us = tonumber(longest_us), tonumber(last_token), tonumber(pace_us)
-- include keys
local named, joining = call('HMGET', lock, '', unpack(ARGV, 7)), false
local found = named[1]
-- include begin
local brought, last, left_us = 0, stamp, longest_us
-- include restore

local client, word, told = '', 'left', {}
for i = 7, #ARGV do
  local id, own_entry = ARGV[i], named[i - 5]
  client = string.match(id, CLIENT_OF)
  if not client then return redis.error_reply(BAD_ID) end
  -- include give_up
end
-- include promote
local lenient = true
-- include commit
-- include answer
