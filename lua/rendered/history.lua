local switch, count = ARGV[1], ARGV[2]
local call, max, min = redis.call, math.max, math.min -- a local is found faster
local lock, waiters = KEYS[1], KEYS[2]
local VERSION = 2 -- of the layout
local CLIENT_OF, BAD_ID = '^([^.]+)%.%d+$', 'ERR an id must be CLIENT.NUMBER'
local SESSION = '<ddd' -- until when the client counts as alive, how many waiters it has, its heartbeat interval
local MEMORY, SEAT, BAD_TEXT = '<Bddddd', '<Bddd', 'ERR a memory or seat is not one that a script of this layout gave'
local LEASE, LIVENESS, CHANNEL, SECRET, LABEL, OWNER = 1, 2, 3, 4, 5, 6 -- the places of an entry's values
local HISTORY, PAST, PAST_MS = 'history', '1000', '604800000' -- how many grants it has, and how long it lives unused
local HOUR_US, DAY_US = 3600000000, 86400000000
local SLACK_US = HOUR_US / 12 -- the least time between two TTLs of a lock in use
local may = redis.acl_check_cmd -- whether the user has a right; Redis 6 cannot be asked
local joining, lenient = false, true
local found = call('HGET', lock, '')
if found and string.byte(found) ~= VERSION then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in layout %d, this client knows layout %d',
    string.byte(found), VERSION))
end
local NUMBERS = '<BBBBBdddddddddddddddddddddd'
local version, broken, cut, claim, recorded, stamp, token, epoch, seen, skew, pace, pace_until, silent_from,
  silent_until, recover_from, recover_until, recover_pace, grants, longest, longest_next, generation, waiting,
  live_until, ttl_until, holder_end, holder_token, holder_ticket, holder_at =
  struct.unpack(NUMBERS, found or string.rep('\0', 181))
local holder = found and string.sub(found, holder_at) or '' -- the id of the holder, or empty
local found_waiting = waiting
local keep_us = min(longest, HOUR_US * 5 / 6) -- how long a client that has nothing here any more keeps its memory
local lost = (waiting > 0 or not found or joining and (holder ~= '' or recover_until > 0))
  and call('ZCARD', waiters) ~= waiting
local time = call('TIME')
local raw = time[1] * 1000000 + time[2]
local now = raw + skew
local found_holder, found_end, found_token, found_ticket = holder, holder_end, holder_token, holder_ticket
local lapsed = ''
if live_until <= seen then
  pace = 0
elseif pace > 0 then
  if now <= max(holder_end, live_until, recover_until) + HOUR_US then now = min(now, seen + 2 * pace) end
  local latest_us = silent_until - silent_from
  if now > seen and (now - seen > latest_us or 2 * (now - silent_until) > latest_us) then
    silent_from, silent_until = seen, now
  end
end
now = max(now, seen)
skew = now - raw
if now >= recover_until then recover_pace = 0 end
if holder ~= '' and holder_end <= now then
  lapsed, holder, holder_end = holder, '', 0
end
local past = string.sub(lock, 1, -5) .. HISTORY
if switch == '1' then
  local added = redis.pcall('XADD', past, 'NOMKSTREAM', 'MAXLEN', '~', PAST, '*', '', '')
  if type(added) == 'table' then
    local is_old = string.find(added.err, 'stream ID', 1, true)
    return is_old and redis.error_reply('ERR a history needs Redis 6.2 or later') or added
  end
  call('XDEL', past, added or call('XADD', past, '*', '', ''))
  call('PEXPIRE', past, PAST_MS)
elseif switch == '0' then
  call('DEL', past)
end
recorded = call('EXISTS', past)
if found and switch ~= '' then
  call('HSET', lock, '', string.sub(found, 1, 4) .. string.char(recorded) .. string.sub(found, 6))
end
local rows = {}
if recorded == 1 and count ~= '0' then
  local entries = call('XREVRANGE', past, '+', '-', 'COUNT', count)
  for i = 1, #entries do rows[i] = cmsgpack.unpack(entries[i][2][2]) end
end
local client, word, told, again, own_pace = '', 'history', {'recorded', recorded, 'past', rows}, false, 0
if again then told[#told + 1], told[#told + 2] = 'again', 1 end
if client ~= '' then
  if cut == 0 and string.match(holder, CLIENT_OF) == client then
    if claim == 1 then told[#told + 1], told[#told + 2] = 'holder_claim', 1 end
    told = {'holder', holder, 'holder_token', holder_token, 'holder_ticket', holder_ticket,
      'holder_seat', struct.pack(SEAT, VERSION, epoch, holder_ticket, holder_token), unpack(told)}
  end
  local known = epoch == 0 and ''
    or struct.pack(MEMORY, VERSION, epoch, stamp, token, longest, max(pace, recover_pace, own_pace))
  told = {'memory', known, 'keep_us', keep_us, unpack(told)}
end
return cmsgpack.pack({word, 'epoch', epoch, 'stamp', stamp, 'waiting', waiting,
  'lease_left_us', max(holder_end - now, 0), 'recover_left_us', max(recover_until - now, 0), unpack(told)})
