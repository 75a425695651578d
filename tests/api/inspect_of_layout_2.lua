local after, count = ARGV[1], ARGV[2]
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
local client, word, told, again, own_pace = '', 'state', {}, false, 0
if holder ~= '' then
  local entry = cmsgpack.unpack(call('HGET', lock, holder))
  told = {'held_id', holder, 'held_token', holder_token, 'held_label', entry[LABEL], 'held_owner', entry[OWNER],
    'held_us', max(raw - holder_token, 0), 'held_claim', claim} -- a token is the time of its grant
end
if holder ~= '' then told[#told + 1], told[#told + 2] = 'held_broken', broken end
local page, sessions, its_id, session, alive_until = {}, {}, nil, nil, nil
if waiting > 0 and not lost then
  local found_waiters = call('ZRANGEBYSCORE', waiters, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
  for i = 1, #found_waiters, 2 do
    its_id = found_waiters[i]
    local ticket, terms = tonumber(found_waiters[i + 1]), cmsgpack.unpack(call('HGET', lock, its_id))
    local its_client = string.match(its_id, CLIENT_OF)
    session = sessions[its_client] or {struct.unpack(SESSION, call('HGET', lock, its_client .. '.'))}
    sessions[its_client] = session
    alive_until = session[1]
    if alive_until > silent_from and silent_until - silent_from > 2 * session[3] then
      alive_until = max(alive_until, silent_until + session[3])
    end
    page[#page + 1] = {its_id, ticket, terms[LABEL], terms[OWNER], max(raw - ticket, 0), alive_until > now and 1 or 0}
  end
end
told = {'page', page, 'grants', grants, 'token', token, unpack(told)} -- the last token granted, or passed over
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
