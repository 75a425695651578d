-- inspect: the holder and the waiters, a page at a time. It writes nothing.
-- KEYS: lock waiters
-- ARGV: after count
--   after: the last ticket of the previous page, 0 for the first page · count: waiters on a page
-- REPLY: state grants [held_id held_token held_label held_owner held_us held_broken] page {id, ticket, label, owner, waited_us, alive}...
local after, count = ARGV[1], ARGV[2]
-- keys: the keys of one lock, in the order in which every script declares them, and the form of its fields.
-- SETS: call max min lock waiters CLIENT_OF BAD_ID SESSION LEASE LIVENESS CHANNEL SECRET LABEL OWNER HISTORY PAST PAST_MS
local call, max, min = redis.call, math.max, math.min -- a local is found faster
local lock, waiters = KEYS[1], KEYS[2]
-- The client of an id. Fields with other names must not be taken for ids: `` has the state, `CLIENT.` a session.
local CLIENT_OF, BAD_ID = '^([^.]+)%.%d+$', 'ERR an id must be CLIENT.NUMBER'
local SESSION = '<dd' -- until when the client counts as alive, and how many waiters it has
local LEASE, LIVENESS, CHANNEL, SECRET, LABEL, OWNER = 1, 2, 3, 4, 5, 6 -- the places of an entry's values
-- The key of the history ends with this instead of `lock`. It is not declared: a slot that is migrating refuses a request
-- that names a key which is not there, and most locks have no history.
local HISTORY, PAST, PAST_MS = 'history', '1000', '604800000' -- how many grants it has, and how long it lives unused
local found, joining = call('HGET', lock, ''), false
-- state: reads the numbers and the holder of the lock.
-- NEEDS: lock waiters found joining
-- SETS: VERSION NUMBERS broken cut claim recorded stamp token epoch seen skew pace pace_until recover_from recover_until recover_pace grants longest
-- SETS: waiting live_until ttl_until holder_end holder_token holder_ticket holder found_waiting lost
local VERSION, NUMBERS = 1, '<BBBBBdddddddddddddddddd' -- one field, because a number as text costs as much as a command
local broken, cut, claim, recorded, stamp, token, epoch, seen, skew, pace, pace_until, recover_from, recover_until, recover_pace, grants, longest, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket =
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
local found_waiting = 0
local holder = '' -- the id of the holder, or empty
if found then
  local version = string.byte(found)
  if version ~= VERSION then
    return redis.error_reply('OTHERLAYOUT the lock is kept in layout ' .. version .. ', this client knows layout ' .. VERSION)
  end
  local size
  version, broken, cut, claim, recorded, stamp, token, epoch, seen, skew, pace, pace_until, recover_from, recover_until, recover_pace, grants, longest, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket, size =
    struct.unpack(NUMBERS, found)
  holder, found_waiting = string.sub(found, size), waiting
end
-- The keys of a lock live and die together: if they disagree, data was lost. The length is also read before the first
-- waiter joins, so that a key of another type is found before the first write.
local lost = false
if waiting > 0 or not found or joining and (holder ~= '' or recover_until > 0) then
  lost = call('ZCARD', waiters) ~= waiting
end
-- time: the only place that reads the server's clock. Tests replace this file by a clock of their own.
-- SETS: raw
-- TIME is read once per script: up to Redis 7.0 it moves on while a script runs.
local raw
do
  local time = call('TIME')
  raw = time[1] * 1000000 + time[2]
end
-- clock: the lock clock. All times are whole µs below 2^53, exact in Lua and in scores.
-- NEEDS: raw skew seen pace recover_until live_until holder holder_end holder_token holder_ticket
-- SETS: now skew pace recover_pace found_holder found_end found_token found_ticket lapsed holder holder_end
local now = raw + skew
local found_holder, found_end, found_token, found_ticket = holder, holder_end, holder_token, holder_ticket
local lapsed = ''
do
  if live_until <= seen then
    pace = 0
  elseif pace > 0 then
    -- A waiting client would have sent a request: a longer silence is an outage or a jump, and no evidence of a death.
    now = min(now, seen + 2 * pace)
  end
  now = max(now, seen)
  skew = now - raw
  if now >= recover_until then recover_pace = 0 end

  -- From here on `holder` is the current holder, and `lapsed` one whose lease was found to be over.
  if holder ~= '' and holder_end <= now then
    lapsed, holder, holder_end = holder, '', 0
  end
end

local client, word, told = '', 'state', {}
-- tell_holder: the holder of the lock, for people.
-- NEEDS: holder holder_token raw told
-- SETS: told
if holder ~= '' then
  local entry = cmsgpack.unpack(call('HGET', lock, holder))
  told = {'held_id', holder, 'held_token', holder_token, 'held_label', entry[LABEL], 'held_owner', entry[OWNER],
    'held_us', max(raw - holder_token, 0)} -- a token is the time of its grant
end
if holder ~= '' then told[#told + 1], told[#told + 2] = 'held_broken', broken end
local page = {}
if waiting > 0 and not lost then
  local found_waiters = call('ZRANGEBYSCORE', waiters, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
  for i = 1, #found_waiters, 2 do
    local id, ticket = found_waiters[i], tonumber(found_waiters[i + 1])
    local entry, session = unpack(call('HMGET', lock, id, string.match(id, CLIENT_OF) .. '.'))
    local terms = cmsgpack.unpack(entry)
    local alive = struct.unpack(SESSION, session) > now and '1' or '0'
    page[#page + 1] = {id, ticket, terms[LABEL], terms[OWNER], max(raw - ticket, 0), alive}
  end
end
told[#told + 1], told[#told + 2] = 'page', page
told[#told + 1], told[#told + 2] = 'grants', grants
local again = false
-- answer: a reply is a word, then names and values. Every waiter learns from it when to ask next. The reply is one string
-- with a MessagePack array: for Redis an array of its own costs as much as the rest of a script.
-- NEEDS: client word told again
if holder ~= '' and cut == 0 and string.match(holder, CLIENT_OF) == client then
  told[#told + 1], told[#told + 2] = 'holder', holder
  told[#told + 1], told[#told + 2] = 'holder_token', holder_token
  told[#told + 1], told[#told + 2] = 'holder_ticket', holder_ticket
  if claim == 1 then told[#told + 1], told[#told + 2] = 'holder_claim', '1' end
end
if again then told[#told + 1], told[#told + 2] = 'again', '1' end
return cmsgpack.pack({word, 'epoch', epoch, 'stamp', stamp, 'token', token, 'waiting', waiting, 'pace_us', max(pace, recover_pace), 'longest_us', longest,
  'lease_left_us', max(holder_end - now, 0), 'recover_left_us', max(recover_until - now, 0), unpack(told)})
