-- rights: the commands that locks need and that this user may not run, by their names in ACLs. It is no verb: a client
-- sends it while it connects. It reads and writes nothing. Redis 6 cannot be asked, and misses nothing then.
-- ARGV: key channel in_cluster
--   key: of some lock · channel: of some client · in_cluster: 1 or 0
local key, channel, in_cluster = ARGV[1], ARGV[2], ARGV[3] == '1'
local missing = {}
if not redis.acl_check_cmd then return missing end

-- A command that is switched off or renamed is an error here, and no right.
local function may(...)
  local known, allowed = pcall(redis.acl_check_cmd, ...)
  return allowed or not known
end

-- Each call has as many arguments as its command takes: servers are not made for others.
local calls = {{'time'}}
-- A user may have rights to some locks only, so that a refused call says nothing of its command. All users may run
-- EVALSHA, or cannot connect.
if may('evalsha', '', 1, key) then
  calls = {{'time'}, {'hget', key, ''}, {'hset', key, '', ''}, {'hdel', key, ''}, {'zadd', key, 0, ''},
    {'zrem', key, ''}, {'zcard', key}, {'zscore', key, ''}, {'zrange', key, 0, 0}, {'zrank', key, ''},
    {'zrangebyscore', key, 0, 0}, {'pexpire', key, 1}, {'del', key}}
end
local hear, tell = 'subscribe', 'publish'
if in_cluster then
  hear, tell = 'ssubscribe', 'spublish'
  calls[#calls + 1], calls[#calls + 2] = {'asking'}, {'cluster', 'slots'}
end
for i = 1, #calls do
  local name = calls[i][1] == 'cluster' and 'cluster|slots' or calls[i][1]
  if not may(unpack(calls[i])) then missing[#missing + 1] = name end
end
-- Of two commands for one channel, one shows whether the user has the channel.
local hears, tells = may(hear, channel), may(tell, channel, '')
if hears ~= tells then missing[#missing + 1] = hears and tell or hear end
return missing
