-- leave: waiters give up their places; a lease that was granted to one of them meanwhile is released.
-- KEYS: lock waiters
-- ARGV: ids...
-- REPLY: left
-- include keys
local named, joining = call('HMGET', lock, '', unpack(ARGV)), false
local found = named[1]
-- include begin
local client, word, told = '', 'left', {}
for i = 1, #ARGV do
  local id, own_entry = ARGV[i], named[i + 1]
  client = string.match(id, CLIENT_OF)
  if not client then return redis.error_reply(BAD_ID) end
  -- include give_up
end
-- include promote
local lenient = true
-- include commit
-- include answer
