-- rights: the commands that locks need and that this user may not run, by their names in ACLs. It is no verb: a client
-- sends it while it connects. It reads and writes nothing. Redis 6 cannot be asked, and misses nothing then.
-- ARGV: key channel in_cluster
--   key: of some lock · channel: of some client · in_cluster: 1 or 0
local key, channel, in_cluster = ARGV[1], ARGV[2], ARGV[3] == '1'
local missing = {}
if not redis.acl_check_cmd then return missing end

-- Each call has as many arguments as its command takes: servers are not made for others. A command that is switched off
-- or renamed is an error here, and no right.
local function may(...)
  local known, allowed = pcall(redis.acl_check_cmd, ...)
  return allowed or not known
end
local function need(name, allowed)
  if not allowed then missing[#missing + 1] = name end
end

need('time', may('TIME'))
-- A user may have rights to some locks only, so that a refused call says nothing of its command. All users may run
-- EVALSHA, or cannot connect.
if may('EVALSHA', '', 1, key) then
  need('hget', may('HGET', key, ''))
  need('hmget', may('HMGET', key, ''))
  need('hset', may('HSET', key, '', ''))
  need('hdel', may('HDEL', key, ''))
  need('zadd', may('ZADD', key, 0, ''))
  need('zrem', may('ZREM', key, ''))
  need('zcard', may('ZCARD', key))
  need('zscore', may('ZSCORE', key, ''))
  need('zrange', may('ZRANGE', key, 0, 0))
  need('zrank', may('ZRANK', key, ''))
  need('zrangebyscore', may('ZRANGEBYSCORE', key, 0, 0))
  need('pexpire', may('PEXPIRE', key, 1))
  need('del', may('DEL', key))
end
-- Of two commands for one channel, one shows whether the user has the channel.
local hear, tell = 'subscribe', 'publish'
if in_cluster then
  hear, tell = 'ssubscribe', 'spublish'
  need('asking', may('ASKING'))
  need('cluster|slots', may('CLUSTER', 'SLOTS'))
end
local hears, tells = may(hear, channel), may(tell, channel, '')
need(hear, hears or not tells)
need(tell, tells or not hears)
return missing
