local after, count = ARGV[1], ARGV[2]
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
local client, word, told, again, own_pace = '', 'state', {}, false, 0
if holder ~= '' then
  local entry = call('HGET', lock, holder)
  local secret_size, label_size, owner_size, tag_size, secret_at = struct.unpack(TEXTS, entry, TEXTS_AT)
  local label_at = secret_at + secret_size
  local owner_at = label_at + label_size
  local tag_at = owner_at + owner_size
  local secret, label = string.sub(entry, secret_at, label_at - 1), string.sub(entry, label_at, owner_at - 1)
  local owner, tag = string.sub(entry, owner_at, tag_at - 1), string.sub(entry, tag_at, tag_at + tag_size - 1)
  told = {'held_id', holder, 'held_token', holder_token, 'held_label', label, 'held_owner', owner,
    'held_us', max(raw - holder_token, 0), 'held_claim', claim} -- a token is the time of its grant
end
if holder ~= '' then told[#told + 1], told[#told + 2] = 'held_broken', broken end
local page, sessions, its_id, session, alive_until = {}, {}, nil, nil, nil
if waiting > 0 and not lost then
  local found_waiters = call('ZRANGEBYSCORE', waiters, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
  for i = 1, #found_waiters, 2 do
    its_id = found_waiters[i]
    local ticket, entry = tonumber(found_waiters[i + 1]), call('HGET', lock, its_id)
    local secret_size, label_size, owner_size, tag_size, secret_at = struct.unpack(TEXTS, entry, TEXTS_AT)
    local label_at = secret_at + secret_size
    local owner_at = label_at + label_size
    local tag_at = owner_at + owner_size
    local secret, label = string.sub(entry, secret_at, label_at - 1), string.sub(entry, label_at, owner_at - 1)
    local owner, tag = string.sub(entry, owner_at, tag_at - 1), string.sub(entry, tag_at, tag_at + tag_size - 1)
    local its_client = string.match(its_id, CLIENT_OF)
    session = sessions[its_client] or {struct.unpack(SESSION, call('HGET', lock, its_client .. '.'))}
    sessions[its_client] = session
    alive_until = session[1]
    if alive_until > silent_from and silent_until - silent_from > 2 * session[3] then
      alive_until = max(alive_until, silent_until + session[3])
    end
    page[#page + 1] = {its_id, ticket, label, owner, max(raw - ticket, 0), alive_until > now and 1 or 0}
  end
end
told = {'page', page, 'grants', grants, 'token', token, 'epoch', epoch, unpack(told)} -- the last token granted, or passed over
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
