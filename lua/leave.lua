-- leave: waiters give up their places; a lease that was granted to one of them meanwhile is released.
-- KEYS: lock waiters
-- ARGV: memory ids...
--   memory: what the client was told of the lock
-- REPLY: left
local memory = ARGV[1]
local seat = ''
-- include keys
-- include known: memory → known_…
-- include begin
local own_pace, left_us = known_pace, 0
-- include restore: known_…, own_pace, left_us

local client, word, told = '', 'left', {}
for i = 2, #ARGV do
  local id = ARGV[i]
  client = string.match(id, CLIENT_OF)
  if not client then return redis.error_reply(BAD_ID) end
  -- include give_up: id
end
-- include promote
-- include commit
-- include answer: the script ends
