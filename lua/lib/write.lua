-- write: makes the planned writes in the one order that is safe in a slot that is migrating, where a script that
-- empties a key and touches it again fails halfway: the hash, which never becomes empty, additions, TTLs, one removal.
-- NEEDS: lost found_waiting recorded contender place leaving stands new_ttl adds past gone rows
-- SETS: may denied
-- A user may lack the right to a command. The commands after the first write are made sure of before it, because a
-- place or lease that is written by half looks like a loss of data to everybody else.
local may = redis.acl_check_cmd -- Redis 6 cannot be asked
local denied = may and (adds and not may('ZADD', waiters, 0, '') and 'zadd'
  or #leaving > 0 and not may('ZREM', waiters, '') and 'zrem'
  or #gone > 0 and not may('HDEL', lock, '') and 'hdel'
  or new_ttl and not may('PEXPIRE', lock, 1) and 'pexpire')
if denied then return redis.error_reply('NOPERM this user has no right to run the command ' .. denied) end

if lost then call('DEL', lock, waiters) end
if stands or epoch > 0 then
  -- include store
end
-- In Redis 6, without the right to it: what is left behind does less harm than a hand-off that is made by half.
if #gone > 0 then redis.pcall('HDEL', lock, unpack(gone)) end
if adds then call('ZADD', waiters, place, contender) end
if new_ttl or waiting > 0 and found_waiting == 0 then
  local ttl = string.format('%.0f', math.ceil((ttl_until - raw) / 1000))
  if new_ttl then call('PEXPIRE', lock, ttl) end
  if waiting > 0 then call('PEXPIRE', waiters, ttl) end
end
if #leaving > 0 then call('ZREM', waiters, unpack(leaving)) end

-- A history that cannot be written must not undo the other writes. One that was deleted is not begun again.
for i = 1, rows and #rows or 0 do redis.pcall('XADD', past, 'NOMKSTREAM', 'MAXLEN', '~', PAST, '*', '', rows[i]) end
if new_ttl and recorded == 1 then redis.pcall('PEXPIRE', past, PAST_MS) end
