local switch, count = ARGV[1], ARGV[2]
local call, max, min = redis.call, math.max, math.min -- a local is found faster
local lock, waiters = KEYS[1], KEYS[2]
local VERSION = 3 -- of the layout
local CLIENT_OF, BAD_ID = '^([^.]+)%.%d+$', 'ERR an id must be CLIENT.NUMBER'
local SESSION = '<ddd' -- until when the client counts as alive, how many waiters it has, its heartbeat interval
local MEMORY, MEMORY_SIZE, SEAT, SEAT_SIZE = '<Bddddd', 41, '<Bddd', 25
local BAD_TEXT = 'ERR a memory or seat is not one that a script of this layout gave'
local TERMS, TEXTS, TEXTS_AT, BAD_TERMS = '<dddddBBHHH', '<BHHH', 42, 'ERR the texts in terms are shorter than they say'
local OWN = '<BHc0BBddd'
local HISTORY, PAST, PAST_MS = 'history', '1000', '604800000' -- how many grants it has, and how long it lives unused
local HOUR_US, DAY_US = 3600000000, 86400000000
local SLACK_US = HOUR_US / 12 -- the least time between two TTLs of a lock in use
local may = redis.acl_check_cmd -- whether the user has a right; Redis 6 cannot be asked
local joining, lenient = false, true
local position, own, owns = 0, '', 0
local found = call('HGET', lock, '')
if found and string.byte(found) ~= VERSION then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in layout %d, this client knows layout %d',
    string.byte(found), VERSION))
end
local NUMBERS = '<BBBBBddddddddddddddddddddddHc0'
local version, broken, cut, claim, recorded, stamp, token, epoch, seen, skew, pace, pace_until, silent_from,
  silent_until, recover_from, recover_until, recover_pace, grants, longest, longest_next, generation, waiting,
  live_until, ttl_until, holder_end, holder_token, holder_ticket, holder, beyond_at =
  struct.unpack(NUMBERS, found or string.rep('\0', 183))
local beyond = found and string.sub(found, beyond_at) or '' -- what a later version of the scripts has added
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
local known, for_people = '', #told > 0 and cmsgpack.pack(told) or ''
if client ~= '' then
  if cut == 0 and string.match(holder, CLIENT_OF) == client then
    own = struct.pack(OWN, claim, #holder, holder, SEAT_SIZE, VERSION, epoch, holder_ticket, holder_token) .. own
    owns = owns + 1
  end
  if epoch > 0 then
    known = struct.pack(MEMORY, VERSION, epoch, stamp, token, longest, max(pace, recover_pace, own_pace))
  end
end
return struct.pack('<Bc0BdddddBc0Bc0Ic0', #word, word, again and 1 or 0, position, waiting, max(holder_end - now, 0),
  max(recover_until - now, 0), keep_us, #known, known, owns, own, #for_people, for_people)
