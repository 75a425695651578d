-- acquire: take the lock, or join its queue, or re-enter the queue with an old ticket. Sending it twice changes nothing.
-- KEYS: lock waiters
-- ARGV: id room as_claim lease_us liveness_us buffer_us heartbeat_us channel secret label owner ticket epoch floor longest_us last_token pace_us
--   room: join the queue if fewer waiters than this are in it, 0 only try · as_claim: 1 grant no more than a claim · ticket: 0 for a new one
--   secret: messages to the caller repeat it · epoch: under which the ticket was confirmed, 0 for none
--   floor longest_us last_token pace_us: what the caller knows of the lock, see lib/restore.lua
-- REPLY: granted left_us granted_token | queued ticket rank | busy [held_id held_token held_label held_owner held_us held_claim] | disbelieved
local id, room, as_claim, lease_us, liveness_us, buffer_us, heartbeat_us, channel, secret, label, owner, ticket, their_epoch, floor, longest_us, last_token, pace_us =
  unpack(ARGV)
lease_us, liveness_us, buffer_us, heartbeat_us = tonumber(lease_us), tonumber(liveness_us), tonumber(buffer_us), tonumber(heartbeat_us)
ticket, their_epoch, floor, longest_us = tonumber(ticket), tonumber(their_epoch), tonumber(floor), tonumber(longest_us)
last_token, pace_us, room = tonumber(last_token), tonumber(pace_us), tonumber(room)
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
local client = string.match(id, CLIENT_OF)
if not client then return redis.error_reply(BAD_ID) end
local found, own_entry, own_session = unpack(call('HMGET', lock, '', id, client .. '.'))
local joining = room > 0
-- begin: the parts with which every verb that writes begins.
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
-- plan: scripts read first and only plan their writes. The new holder and numbers are planned by setting the variables;
-- all other plans are declared here.
-- SETS: contender terms place ends queued joins sessions leaving fields messages again ended_how ended_entry
local contender, terms, place, ends -- the asking id, its entry, its place, and when its lease would end
local queued, joins -- whether it is in the queue already, and whether it queues if it is not granted the lock
local sessions = {} -- by client: {until when it counts as alive, how many waiters it has}, as read or as planned
local leaving = {} -- the ids that leave the queue, a list and a set
local fields, messages = {}, {} -- entries to write, and messages to publish
local again = false -- whether the batch limit was reached, so that the caller asks again
local ended_how, ended_entry = 'lost', nil -- how the lease ended that this script ends, and its entry if it was read
-- lost: a key of this lock is missing, so the rest of its data counts as lost too. A new epoch tells the clients, and they
-- bring back what they know. Stamp, token, epoch and clock are kept if the numbers are left.
-- NEEDS: lost found raw now
-- SETS: stamp epoch recover_from recover_until recover_pace waiting found_waiting live_until broken cut claim holder holder_end found_holder lapsed
if lost then
  -- New stamps continue after those of the dropped queue.
  local last = not found and call('ZRANGE', waiters, '-1', '-1', 'WITHSCORES')[2]
  stamp = max(raw, stamp + 1, tonumber(last or 0) + 1)
  epoch = stamp
  if found then
    -- No other waiter is granted the lock before the last lease is over and the slowest waiter had the time to return.
    recover_from, recover_pace = now, max(recover_pace, pace)
    recover_until = max(now + max(3 * recover_pace, longest), live_until)
  end
  waiting, found_waiting, live_until, broken, cut, claim = 0, 0, 0, 0, 0, 0
  holder, holder_end, found_holder, lapsed = '', 0, '', ''
end
local word, told = 'disbelieved', {}
local brought, last, left_us = ticket, stamp, longest_us
-- restore: what a client knows shows whether the server lost data.
-- NEEDS: brought last their_epoch floor last_token left_us pace_us liveness_us raw now
-- SETS: believed left_us stamp token epoch recover_from recover_until recover_pace longest holder_end cut
-- `brought` is the ticket or token (0: none), `last` the last one given, `their_epoch` the epoch under which the server
-- last confirmed it (0: never), or the client's latest epoch if it brings neither. What the client knows of the lock: `floor`, the highest stamp that it ever saw; `last_token`,
-- the last grant that it heard of; `left_us`, how long a lease may last that was granted or renewed just before the loss
-- (for a holder: what is left of its own); `pace_us`, the longest heartbeat interval among the waiters.
local believed
do
  local ABSURD_US = 86400000000
  local highest = max(their_epoch, brought, floor, last_token)
  -- A stamp that this server gave is never absurd, whatever its clock shows now. Beyond the last stamp only TIME decides:
  -- otherwise one absurd stamp that was believed would make room for the next.
  believed = highest <= stamp or highest <= raw + ABSURD_US
  if believed then
    -- Every number in a reply was stored before. So a higher one under the same epoch proves a loss. A token proves it even
    -- if other clients have been given stamps since.
    local nameless = their_epoch == 0
    local beyond = highest > stamp or brought > last and not nameless
    local rolled_back = their_epoch > epoch or (their_epoch == epoch or nameless) and beyond
    local made_anew = their_epoch < epoch and not nameless and recover_until == 0
    stamp = max(stamp, highest)
    -- The lease that the client knows of is over if the lock was granted again since then.
    if last_token < token then left_us = 0 end
    if rolled_back or made_anew then
      stamp = max(raw, stamp + 1)
      epoch = stamp
      recover_from, recover_pace = now, max(recover_pace, pace, math.ceil(liveness_us / 3))
    end
    if rolled_back or made_anew or their_epoch < epoch and not nameless and now < recover_until then
      -- Every waiter needs the time to notice the loss: the slowest sends one heartbeat per pace. A client that returns
      -- later may know of a slower waiter, or of a longer lease, than the one that opened the recovery.
      recover_pace, longest = max(recover_pace, pace_us), max(longest, left_us)
      recover_until = max(recover_until, recover_from + max(3 * recover_pace, left_us))
    end
    if rolled_back and holder ~= '' then
      -- A lease from before the loss may be long over. If its holder still believes in it, it re-asserts it. If the state
      -- was made anew, the lease was granted after the loss and stays.
      holder_end, cut = min(holder_end, recover_until), 1
    end
    -- A lease that the client knows to be older than the last grant is not restored.
    if now < recover_until then token = max(token, last_token) end
  end
end
if not believed then
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
end

if holder == id and cut == 1 then
  -- The lease was granted before the loss of data; later grants are not known. The waiter returns to its place.
  holder, holder_end, cut = '', 0, 0
end
if epoch == 0 then
  stamp = max(raw, stamp + 1)
  epoch = stamp
end

if holder ~= id then
  contender, terms, ends = id, {lease_us, liveness_us, channel, secret, label, owner}, now + lease_us
  if as_claim == '1' then ends = min(ends, now + liveness_us) end
  queued = joining and own_entry and id ~= found_holder and not lost
  -- A full queue admits no newcomer. An id in it, or with an old ticket, has a place.
  joins, place = joining and (queued or ticket > 0 or waiting < room), math.huge -- a try comes after all waiters
  if joins then
    if queued then
      place = tonumber(call('ZSCORE', waiters, id))
    elseif ticket > 0 then
      place = ticket
    else
      stamp = max(raw, stamp + 1)
      place = stamp
    end
    if waiting > 0 or holder ~= '' or now < recover_until then
      -- The caller will wait, or other waiters of its client do: this is a sign of life of their session.
-- refresh: records a sign of life from the session of `client`, which counts as alive until its end on the lock clock.
-- NEEDS: client own_session liveness_us buffer_us heartbeat_us now
-- SETS: sessions live_until pace pace_until
do
  local alive_until, count = 0, 0
  if own_session and not lost then alive_until, count = struct.unpack(SESSION, own_session) end
  alive_until = max(alive_until, now + liveness_us + buffer_us)
  sessions[client] = {alive_until, count}
  live_until = max(live_until, alive_until)
  -- The pace is that of the slowest client until its session has ended.
  if heartbeat_us > pace or now >= pace_until then
    pace, pace_until = heartbeat_us, alive_until
  elseif heartbeat_us == pace then
    pace_until = max(pace_until, alive_until)
  end
end
    end
  end
end
-- promote: grants a free lock to the first live waiter and tells it by a message; zombies before it are purged. A contender
-- is alive, and learns of its grant from the reply.
-- NEEDS: client contender terms place ends queued joins sessions leaving fields messages
-- SETS: holder holder_end holder_token holder_ticket broken cut claim token stamp grants longest waiting again
do
  local BATCH = 100 -- the most waiters that one call examines, so that its work is bounded
  if holder == '' and now >= recover_until then
    local grantee, its_terms, its_place, its_end = nil, terms, place, ends
    local looked, my_turn = 0, waiting == 0
    local page, from, at = {}, 0, 1
    while not my_turn and not grantee do
      if at > #page then
        -- The first waiter is nearly always alive.
        page = call('ZRANGE', waiters, from, from == 0 and 0 or BATCH - 1, 'WITHSCORES')
        from, at = from + #page / 2, 1
        if #page == 0 then break end
      end
      local head, its_ticket = page[at], tonumber(page[at + 1])
      my_turn = contender and its_ticket >= place
      if not my_turn then
        at, looked = at + 2, looked + 1
        if not leaving[head] then
          leaving[#leaving + 1], leaving[head], waiting = head, true, waiting - 1
          local its_client = string.match(head, CLIENT_OF)
          local entry, session = unpack(call('HMGET', lock, head, its_client .. '.'))
          sessions[its_client] = sessions[its_client] or {struct.unpack(SESSION, session)}
          local alive_until = sessions[its_client][1]
          if alive_until > now then
            -- The claim ends with the session: processes that died together cost one liveness window, not one each.
            grantee, its_terms, its_place = head, cmsgpack.unpack(entry), its_ticket
            its_end = min(now + its_terms[LEASE], now + its_terms[LIVENESS], alive_until)
          end
        end
      end
    end

    again = not grantee and not my_turn and looked == BATCH and waiting > 0
    if contender and not grantee and not again then
      grantee = contender
      if queued then leaving[#leaving + 1], leaving[contender], waiting = contender, true, waiting - 1 end
    end
    if grantee then
      stamp = max(raw, stamp + 1)
      holder, token, grants = grantee, stamp, grants + 1
      -- If it does not hear of its grant in time, this ticket is its place in the queue again. A try has none: its token
      -- stands in.
      holder_end, holder_token, holder_ticket, broken, cut = its_end, token, min(its_place, token), 0, 0
      claim = its_end < now + its_terms[LEASE] and 1 or 0
      if holder ~= contender then
        messages[#messages + 1] = {its_terms, 'grant', holder, holder_token, holder_ticket, holder_end - now}
      end
    end
  end

  if contender and (joins or holder == contender) then
    fields[1], fields[2] = contender, cmsgpack.pack(terms) -- also of a waiter in the queue, whose terms may have changed
    longest = max(longest, terms[LEASE])
    if holder ~= contender and not queued then
      waiting = waiting + 1
      sessions[client][2] = sessions[client][2] + 1
    end
  end
end
local lenient = false -- a server without memory admits no new waiters
-- commit: makes the planned writes in the one order that is safe in a slot that is migrating, where a script that empties
-- a key and touches it again fails halfway: the hash, which never becomes empty, additions, TTLs, one removal, messages.
-- A `lenient` script goes on when memory is short.
-- NEEDS: lenient lost found found_holder found_waiting recorded ended_how ended_entry contender queued joins place sessions leaving fields messages
-- SETS: live_until ttl_until holder_end holder_token holder_ticket broken cut claim recorded
do
  local DAY_US, HOUR_US = 86400000000, 3600000000
  local SLACK_US = HOUR_US / 12 -- the least time between two TTLs of a lock in use
  local stands = holder ~= '' or waiting > 0
  if waiting == 0 then live_until = 0 end
  if holder == '' then holder_end, holder_token, holder_ticket, broken, cut, claim = 0, 0, 0, 0, 0, 0 end
  -- If TIME was set back, stamps ahead of it must be remembered until it has caught up.
  local rest_us = max(recover_until - now, stamp - raw, 0)
  if stands then rest_us = max(rest_us, max(holder_end, live_until) - now) end
  -- An idle lock that was granted only once is forgotten after an hour, because a million names may be used like that;
  -- any other after a day, because tokens must rise over a clock that jumps forwards and back.
  local needed_until = raw + ((stands or grants > 1) and DAY_US or HOUR_US) + rest_us
  local new_ttl = not found or lost or ttl_until < needed_until or ttl_until > needed_until + 2 * SLACK_US
  if new_ttl then ttl_until = needed_until + SLACK_US end

  -- A session is removed with its last waiter, an entry with the lease or the place, unless its id has the other now.
  local gone = {}
  if found_holder ~= '' and found_holder ~= holder and not (joins and found_holder == contender) then
    gone[1] = found_holder
  end
  for i = 1, #leaving do
    local leaver = leaving[i]
    if leaver ~= holder then gone[#gone + 1] = leaver end
    local its_client = string.match(leaver, CLIENT_OF)
    local session = sessions[its_client]
    if not session then
      session = {struct.unpack(SESSION, call('HGET', lock, its_client .. '.'))}
      sessions[its_client] = session
    end
    session[2] = session[2] - 1
  end
  for its_client, session in pairs(sessions) do
    if session[2] == 0 then
      gone[#gone + 1] = its_client .. '.'
    else
      fields[#fields + 1], fields[#fields + 2] = its_client .. '.', struct.pack(SESSION, session[1], session[2])
    end
  end

  -- The history may outlive the state.
  local past = (recorded == 1 or not found) and string.sub(lock, 1, -5) .. HISTORY
  if not found then recorded = redis.pcall('EXISTS', past) == 1 and 1 or 0 end
-- ended: what the history tells of a lease that has ended in this script.
-- NEEDS: recorded holder holder_token found_holder found_token found_ticket found_end lapsed ended_how ended_entry raw now
-- SETS: ended
local ended
if recorded == 1 and found_holder ~= '' and (holder ~= found_holder or holder_token ~= found_token) then
  local entry = cmsgpack.unpack(ended_entry or call('HGET', lock, found_holder))
  local over_us = lapsed ~= '' and now - found_end or 0 -- since when it was over
  ended = cmsgpack.pack({found_holder, found_token, entry[LABEL], entry[OWNER], found_token - found_ticket,
    max(raw - over_us - found_token, 0), lapsed ~= '' and 'expired' or ended_how})
end

  if lost then call('DEL', lock, waiters) end
  if stands or epoch > 0 then
    local numbers = struct.pack(NUMBERS, VERSION, broken, cut, claim, recorded, stamp, token, epoch, now, skew, pace, pace_until,
      recover_from, recover_until, recover_pace, grants, (stands or now < recover_until) and longest or 0, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket) .. holder
    local written = redis.pcall('HSET', lock, '', numbers, unpack(fields))
    if type(written) == 'table' then
      -- Most likely memory is short. Once a script has written anything, the server accepts its other writes.
      if not lenient then return written end
      call('PEXPIRE', lock, DAY_US / 1000)
      call('HSET', lock, '', numbers, unpack(fields))
      new_ttl = true
    end
  end
  if #gone > 0 then call('HDEL', lock, unpack(gone)) end
  if joins and not queued and holder ~= contender then call('ZADD', waiters, place, contender) end
  if new_ttl or waiting > 0 and found_waiting == 0 then
    local ttl = string.format('%.0f', math.ceil((ttl_until - raw) / 1000))
    if new_ttl then call('PEXPIRE', lock, ttl) end
    if waiting > 0 then call('PEXPIRE', waiters, ttl) end
  end
  if #leaving > 0 then call('ZREM', waiters, unpack(leaving)) end

  -- A history that cannot be written must not undo the other writes. One that was deleted is not begun again.
  if ended then redis.pcall('XADD', past, 'NOMKSTREAM', 'MAXLEN', '~', PAST, '*', '', ended) end
  if new_ttl and recorded == 1 then redis.pcall('PEXPIRE', past, PAST_MS) end

  -- A client without the right to a channel must not undo the writes: heartbeats make up for the lost message.
  for i = 1, #messages do
    local its_terms, kind, its_id, its_token, its_ticket, left = unpack(messages[i])
    local to = its_terms[CHANNEL]
    -- Redis turns whole numbers below 2^53 into exact text, in commands and replies, but Lua does not. Only the numbers
    -- are formatted: %s ends a text at its first NUL, and a name may have one.
    local message = kind .. ' ' .. its_id .. string.format(' %.0f %.0f %.0f ', its_token, its_ticket, left)
      .. its_terms[SECRET] .. ' ' .. lock
    -- A channel with a hash tag belongs to the slot of the lock. Up to Redis 6 there are none: all nodes get the message.
    local sent = string.find(to, '{', 1, true) and redis.pcall('SPUBLISH', to, message)
    if type(sent) ~= 'number' then redis.pcall('PUBLISH', to, message) end
  end
end

if holder == id then
  word, told = 'granted', {'left_us', holder_end - now, 'granted_token', holder_token}
elseif joins then
  -- A new ticket is the last one.
  word, told = 'queued', {'ticket', place, 'rank', (queued or ticket > 0) and call('ZRANK', waiters, id) or waiting - 1}
else
  word = 'busy'
-- tell_holder: the holder of the lock, for people.
-- NEEDS: holder holder_token claim raw told
-- SETS: told
if holder ~= '' then
  local entry = cmsgpack.unpack(call('HGET', lock, holder))
  told = {'held_id', holder, 'held_token', holder_token, 'held_label', entry[LABEL], 'held_owner', entry[OWNER],
    'held_us', max(raw - holder_token, 0), 'held_claim', claim} -- a token is the time of its grant
end
end
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
