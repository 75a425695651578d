-- history: the latest grants whose leases have ended, and whether they are recorded. It also switches the recording on
-- or off. Switching it off drops what was recorded.
-- KEYS: lock
-- ARGV: switch count
--   switch: 1 on, 0 off, nothing as it is · count: how many grants, the latest first
-- REPLY: history recorded past {id, token, label, owner, waited_us, held_us, how, slot}...
local switch, count = ARGV[1], ARGV[2]
-- include keys
-- include found
-- include time
-- include state
-- include plan

local past = string.sub(lock, 1, -5) .. HISTORY
if switch == '1' then
  local added = redis.pcall('XADD', past, 'NOMKSTREAM', 'MAXLEN', '~', PAST, '*', '', '')
  if type(added) == 'table' then
    local is_old = string.find(added.err, 'stream ID', 1, true)
    return is_old and redis.error_reply('ERR a history needs Redis 6.2 or later') or added
  end
  -- A stream remains when its last entry goes.
  call('XDEL', past, added or call('XADD', past, '*', '', ''))
  call('PEXPIRE', past, PAST_MS)
elseif switch == '0' then
  call('DEL', past)
end
recorded = call('EXISTS', past)
if found and switch ~= '' then
  -- A lock with a history is not calm. Nothing else changes, nor does its clock.
  local now, leases = seen, {}
  calm, fields = 0, taken and {taken_id, taken} or {}
  -- include store
  if taken then call('HDEL', lock, taken_field) end
end
-- include clock
-- include leases
-- include sweep

local rows = {}
if recorded == 1 and count ~= '0' then
  local entries = call('XREVRANGE', past, '+', '-', 'COUNT', count)
  for i = 1, #entries do rows[i] = cmsgpack.unpack(entries[i][2][2]) end
end
local client, word, told, own_pace = '', 'history', {'recorded', recorded, 'past', rows}, 0
-- include answer: the script ends
