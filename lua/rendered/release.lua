-- release: the holder releases the lease; the next waiter is granted the lock in the same script.
-- KEYS: lock waiters
-- ARGV: id seat memory
--   seat: of the lease; empty if it is not known, and where the lease may be over: in a release that is repeated, or
--   that comes after the lease was declared lost
-- REPLY: released | expired | left | unknown
--   expired: the lease was over already · left: the id was only in the queue · unknown: neither
local id, seat, memory = unpack(ARGV)
-- keys: the keys of one lock, in the order in which every script declares them, and the forms of what is packed.
-- SETS: call max min lock waiters VERSION CLIENT_OF BAD_ID BAD_TEXT SESSION MEMORY SEAT
-- SETS: LEASE LIVENESS CHANNEL SECRET LABEL OWNER HISTORY PAST PAST_MS HOUR_US DAY_US SLACK_US may
-- SETS: joining lenient
local call, max, min = redis.call, math.max, math.min -- a local is found faster
local lock, waiters = KEYS[1], KEYS[2]
local VERSION = 2 -- of the layout
-- The client of an id. Fields with other names must not be taken for ids: `` has the state, `CLIENT.` a session.
local CLIENT_OF, BAD_ID = '^([^.]+)%.%d+$', 'ERR an id must be CLIENT.NUMBER'
local SESSION = '<ddd' -- until when the client counts as alive, how many waiters it has, its heartbeat interval
-- What clients keep and send back: VERSION, then epoch stamp token longest pace, or epoch ticket token.
local MEMORY, SEAT, BAD_TEXT = '<Bddddd', '<Bddd', 'ERR a memory or seat is not one that a script of this layout gave'
local LEASE, LIVENESS, CHANNEL, SECRET, LABEL, OWNER = 1, 2, 3, 4, 5, 6 -- the places of an entry's values
-- The key of the history ends with this instead of `lock`. It is not declared: a slot that is migrating refuses a
-- request that names a key which is not there, and most locks have no history.
local HISTORY, PAST, PAST_MS = 'history', '1000', '604800000' -- how many grants it has, and how long it lives unused
local HOUR_US, DAY_US = 3600000000, 86400000000
local SLACK_US = HOUR_US / 12 -- the least time between two TTLs of a lock in use
local may = redis.acl_check_cmd -- whether the user has a right; Redis 6 cannot be asked
-- Only an acquire sets these: whether it may add a waiter, and whether the script goes on when memory is short.
local joining, lenient = false, true
-- asker: the client of the id that asks.
-- NEEDS: id
-- SETS: client
local client = string.match(id, CLIENT_OF)
if not client then return redis.error_reply(BAD_ID) end
-- known: unpacks what the client knows of the lock (its memory), and the place or lease that it brings (its seat).
-- Either may be empty.
-- NEEDS: memory seat
-- SETS: memory_version known_epoch known_stamp known_token known_longest known_pace
-- SETS: seat_version seat_epoch seat_ticket seat_token
if memory ~= '' and (#memory ~= 41 or string.byte(memory) ~= VERSION)
  or seat ~= '' and (#seat ~= 25 or string.byte(seat) ~= VERSION) then return redis.error_reply(BAD_TEXT) end
local memory_version, known_epoch, known_stamp, known_token, known_longest, known_pace =
  struct.unpack(MEMORY, memory ~= '' and memory or string.rep('\0', 41))
local seat_version, seat_epoch, seat_ticket, seat_token =
  struct.unpack(SEAT, seat ~= '' and seat or string.rep('\0', 25))
-- begin: the parts with which every verb that writes begins.
-- state: reads the numbers and the holder of the lock, and whether a key of it was lost.
-- NEEDS: lock waiters joining
-- SETS: found NUMBERS version broken cut claim recorded stamp token epoch seen skew pace pace_until silent_from
-- SETS: silent_until recover_from recover_until recover_pace grants longest longest_next generation waiting live_until
-- SETS: ttl_until holder_end holder_token holder_ticket holder_at holder found_waiting keep_us lost
local found = call('HGET', lock, '')
if found and string.byte(found) ~= VERSION then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in layout %d, this client knows layout %d',
    string.byte(found), VERSION))
end
-- One field, because a number as text costs as much as a command.
local NUMBERS = '<BBBBBdddddddddddddddddddddd'
local version, broken, cut, claim, recorded, stamp, token, epoch, seen, skew, pace, pace_until, silent_from,
  silent_until, recover_from, recover_until, recover_pace, grants, longest, longest_next, generation, waiting,
  live_until, ttl_until, holder_end, holder_token, holder_ticket, holder_at =
  struct.unpack(NUMBERS, found or string.rep('\0', 181))
local holder = found and string.sub(found, holder_at) or '' -- the id of the holder, or empty
local found_waiting = waiting
local keep_us = min(longest, HOUR_US * 5 / 6) -- how long a client that has nothing here any more keeps its memory
-- The keys of a lock live and die together: if they disagree, data was lost. The length is also read before the first
-- waiter joins, so that a key of another type is found before the first write.
local lost = (waiting > 0 or not found or joining and (holder ~= '' or recover_until > 0))
  and call('ZCARD', waiters) ~= waiting
-- time: the only place that reads the server's clock. Tests replace this file by a clock of their own.
-- SETS: time raw
-- TIME is read once per script: up to Redis 7.0 it moves on while a script runs.
local time = call('TIME')
local raw = time[1] * 1000000 + time[2]
-- clock: the lock clock, and the end of a lease. All times are whole µs below 2^53, exact in Lua and in scores.
-- NEEDS: raw skew seen pace recover_until live_until silent_from silent_until
-- NEEDS: holder holder_end holder_token holder_ticket
-- SETS: now skew pace silent_from silent_until recover_pace lapsed holder holder_end
-- SETS: found_holder found_end found_token found_ticket
local now = raw + skew
local found_holder, found_end, found_token, found_ticket = holder, holder_end, holder_token, holder_ticket
local lapsed = ''
if live_until <= seen then
  pace = 0
elseif pace > 0 then
  -- A waiting client would have sent a request: a longer silence is an outage or a jump, and no evidence of a death.
  -- An hour after the end of all that is left, nobody was there to send one.
  if now <= max(holder_end, live_until, recover_until) + HOUR_US then now = min(now, seen + 2 * pace) end
  -- The latest long silence. Nobody who was heard before it is taken for dead because of it (lib/session.lua). It has
  -- no effect any more when half of its length has passed, and then a shorter one takes its place.
  local latest_us = silent_until - silent_from
  if now > seen and (now - seen > latest_us or 2 * (now - silent_until) > latest_us) then
    silent_from, silent_until = seen, now
  end
end
now = max(now, seen)
skew = now - raw
if now >= recover_until then recover_pace = 0 end

-- From here on `holder` is the current holder, and `lapsed` one whose lease was found to be over.
if holder ~= '' and holder_end <= now then
  lapsed, holder, holder_end = holder, '', 0
end
-- plan: scripts read first and only plan their writes. The new holder and numbers are planned by setting the variables;
-- all other plans are declared here.
-- SETS: contender terms place ends queued joins moves sessions leaving fields messages
-- SETS: BATCH looked its_id session alive_until head head_ticket head_until again ended_how
local contender, terms, ends -- the asking id, its entry, and when its lease would end
local place = math.huge -- the contender's ticket; a try comes after all waiters
-- Its ticket in the queue, if it has one; whether it queues unless it is granted the lock; whether its place is new.
local queued, joins, moves
local sessions = {} -- by client, as planned: {until when it counts as alive, how many waiters it has, its heartbeat}
local leaving = {} -- the ids that leave the queue, a list and a set
local fields, messages = {}, {} -- entries to write, and messages to publish
local BATCH = 100 -- the most waiters that one script examines, so that its work is bounded
local looked = 0 -- how many were
local its_id, session, alive_until -- the waiter that was examined last, and its client's session
local head, head_ticket, head_until -- the first live waiter among them
local again = false -- whether the batch limit was reached, so that the caller asks again
local ended_how = 'lost' -- how the lease ended that this script ends
-- lost: a key of this lock is missing, so the rest of its data counts as lost too. A new epoch tells the clients, and
-- they bring back what they know. Stamp, token, epoch and clock are kept if the numbers are left.
-- NEEDS: lost found raw now
-- SETS: stamp epoch recover_from recover_until recover_pace waiting found_waiting live_until broken cut claim
-- SETS: holder holder_end found_holder lapsed
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

local word, told, own_pace = 'unknown', {}, known_pace
-- simple: whether there is no more to do than to grant a free lock, or to free it: nobody waits, nothing was lost, no
-- clock was set back, no recovery is open, and no history is recorded.
-- NEEDS: memory seat known_epoch known_stamp known_token seat_epoch seat_ticket seat_token
-- NEEDS: raw now waiting recorded recover_until grants stamp token epoch ttl_until
-- SETS: simple spare_us
-- A lost key was given a new stamp, which is not below `raw`.
local simple = waiting == 0 and grants > 1 and recorded == 0 and now >= recover_until and stamp < raw
  and (memory == '' or known_epoch == epoch and known_stamp <= stamp and known_token <= token)
  and (seat == '' or seat_epoch == epoch and seat_ticket <= stamp and seat_token <= token)
local spare_us = ttl_until - raw - DAY_US -- for how much longer than an idle lock needs it the keys live
if simple and holder == id and spare_us >= 0 and spare_us <= 2 * SLACK_US and (not may or may('HDEL', lock, '')) then
  -- The common case: the lock becomes free. Without these lines the rest of the script would do the same.
  holder, holder_end, holder_token, holder_ticket, broken, cut, claim = '', 0, 0, 0, 0, 0, 0
  live_until = 0
  -- write: writes the numbers, the holder and the planned entries. A `lenient` script goes on when memory is short: once
  -- a script has written anything, the server accepts its other writes.
  -- NEEDS: lenient fields raw now
  -- SETS: numbers written
  local numbers = struct.pack(NUMBERS, VERSION, broken, cut, claim, recorded, stamp, token, epoch, now, skew, pace,
    pace_until, silent_from, silent_until, recover_from, recover_until, recover_pace, grants, longest, longest_next,
    generation, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket) .. holder
  local written = redis.pcall('HSET', lock, '', numbers, unpack(fields))
  if type(written) == 'table' then
    if not lenient or not string.find(written.err, 'OOM', 1, true) then return written end
    call('PEXPIRE', lock, string.format('%.0f', math.ceil((ttl_until - raw) / 1000)))
    call('HSET', lock, '', numbers, unpack(fields))
  end
  redis.pcall('HDEL', lock, id)
  word = 'released'
  -- answer: ends the script with its reply: a word, then names and values. The reply is one string with a MessagePack
  -- array, because for Redis an array of its own costs as much as the rest of a script.
  -- NEEDS: client word told again own_pace keep_us
  -- SETS: told
  if again then told[#told + 1], told[#told + 2] = 'again', 1 end
  if client ~= '' then
    if cut == 0 and string.match(holder, CLIENT_OF) == client then
      if claim == 1 then told[#told + 1], told[#told + 2] = 'holder_claim', 1 end
      told = {'holder', holder, 'holder_token', holder_token, 'holder_ticket', holder_ticket,
        'holder_seat', struct.pack(SEAT, VERSION, epoch, holder_ticket, holder_token), unpack(told)}
    end
    -- What the client sends back with its next request.
    local known = epoch == 0 and ''
      or struct.pack(MEMORY, VERSION, epoch, stamp, token, longest, max(pace, recover_pace, own_pace))
    told = {'memory', known, 'keep_us', keep_us, unpack(told)}
  end
  return cmsgpack.pack({word, 'epoch', epoch, 'stamp', stamp, 'waiting', waiting,
    'lease_left_us', max(holder_end - now, 0), 'recover_left_us', max(recover_until - now, 0), unpack(told)})
end

local left_us = 0
-- restore: what a client knows shows whether the server lost data. The table is in lua/README.md.
-- NEEDS: memory known_epoch known_stamp known_token known_pace seat_epoch seat_ticket seat_token
-- NEEDS: known_longest own_pace left_us raw now
-- SETS: highest believed stamp token epoch recover_from recover_until recover_pace longest holder_end cut
-- `left_us`: how long a lease may last that the client asks for, or has, beside those that it was told of;
-- `own_pace`: the client's own heartbeat interval.
local highest = max(known_epoch, known_stamp, known_token, seat_epoch, seat_ticket, seat_token)
-- A stamp that this server gave is never implausible, whatever its clock shows now. Beyond the last stamp only TIME
-- decides: otherwise one implausible stamp that was believed would make room for the next.
local believed = highest <= stamp or highest <= raw + DAY_US
if believed then
  -- Every number in a memory or seat was stored before. So a higher one under the same epoch proves a loss.
  local knows = memory ~= '' -- a stranger knows of no loss
  local rollback = knows and (max(known_epoch, seat_epoch) > epoch
    or known_epoch == epoch and (known_stamp > stamp or known_token > token)
    or seat_epoch == epoch and (seat_ticket > stamp or seat_token > token))
  local older = knows and (known_epoch < epoch or seat_epoch > 0 and seat_epoch < epoch)
  local anew, returns = older and not rollback and recover_until == 0, older and now < recover_until
  stamp = max(stamp, highest)
  -- What was granted before `token` is over; but one above may be a token that was passed over.
  local lasts_us = max(known_token, seat_token) + 1 < token and 0 or max(left_us, known_longest)
  if rollback or anew then
    stamp = max(raw, stamp + 1)
    epoch = stamp
    recover_from, recover_pace = now, max(recover_pace, pace)
  end
  if rollback or anew or returns then
    -- Every waiter needs the time to notice the loss: the slowest sends one heartbeat per pace. A client that returns
    -- later may know of a slower waiter, or of a longer lease, than the one that opened the recovery.
    recover_pace, longest = max(recover_pace, known_pace, own_pace), max(longest, lasts_us)
    recover_until = max(recover_until, recover_from + max(3 * recover_pace, lasts_us))
  end
  if now < recover_until then
    -- A lease from before the loss may be long over, and so is one that is older than a grant of which a client
    -- knows. (To break a lease takes one token.) If its holder still believes in it, it re-asserts it. A lease that
    -- was granted after the loss stays.
    if holder ~= '' and (rollback or known_token > holder_token + broken) then
      holder_end, cut = min(holder_end, recover_until), 1
    end
    token = max(token, known_token)
  end
end

local newest = seat_token > 0 and (seat_token >= token or holder == id) -- no later grant is known
-- give_up: an id gives up its lease or its place in the queue.
-- NEEDS: id broken now recover_until lapsed holder_token leaving
-- SETS: gave_up holder holder_end token stamp waiting ended_how
local gave_up
if now < recover_until and (holder == id or lapsed == id) then
  -- In a recovery a lease can be re-asserted if no newer token is known. One that was given up must not be.
  token = max(token, holder_token + 1)
  stamp = max(stamp, token)
end
if holder == id then
  gave_up = 'released'
  holder, holder_end = '', 0
  ended_how = broken == 1 and 'broken' or 'released'
elseif lapsed == id then
  gave_up = 'expired'
elseif waiting > 0 and not leaving[id] and call('ZSCORE', waiters, id) then
  gave_up = 'left'
  leaving[#leaving + 1], leaving[id], waiting = id, true, waiting - 1
end
word = gave_up or word
if believed and newest and now < recover_until then
  -- The recovery waited for this lease. What remains is the time for the waiters to return to their places.
  -- As after a later grant, also for those who have heard of a break: nobody who returns waits for this lease again.
  token = max(token, seat_token + 1) + 2
  stamp = max(stamp, token)
  -- cut_short: from now on an open recovery waits only for waiters that are returning. With it ends a lease from before
  -- the loss of data.
  -- NEEDS: now
  -- SETS: recover_until recover_pace holder holder_end
  if recover_from > 0 then recover_until = max(now, recover_from + 3 * recover_pace) end
  if recover_until <= now then recover_pace = 0 end
  if holder ~= '' and cut == 1 then
    holder_end = min(holder_end, recover_until)
    if holder_end <= now then holder, holder_end = '', 0 end
  end
  -- A state that is older than the lease may have its place in the queue.
  if word == 'unknown' or word == 'left' then word = 'released' end
end
-- promote: grants a free lock to the first live waiter and tells it by a message. A contender is alive, and learns of
-- its grant from the reply.
-- NEEDS: client contender terms place ends queued joins sessions leaving fields messages
-- SETS: holder holder_end holder_token holder_ticket broken cut claim token stamp grants
-- SETS: longest longest_next generation waiting
if holder == '' and now >= recover_until then
  -- heads: finds the first live waiter before `place`. Dead ones before it leave the queue.
  -- NEEDS: place now sessions leaving
  -- SETS: looked its_id head head_ticket head_until leaving waiting again
  while not head and waiting > 0 and looked < BATCH do
    local found_id, its_ticket = unpack(call('ZRANGE', waiters, looked, looked, 'WITHSCORES'))
    its_id, its_ticket = found_id, tonumber(its_ticket)
    if not its_id or its_ticket >= place then break end
    looked = looked + 1
    if not leaving[its_id] then
      -- session: the session of the client of a waiter, as it is planned, and until when that client counts as alive. After a
      -- silence of more than two of its heartbeats, which may have been an outage, a client that was alive before has the
      -- time for one more.
      -- NEEDS: its_id sessions silent_from silent_until
      -- SETS: its_client session sessions alive_until
      local its_client = string.match(its_id, CLIENT_OF)
      session = sessions[its_client] or {struct.unpack(SESSION, call('HGET', lock, its_client .. '.'))}
      sessions[its_client] = session
      alive_until = session[1]
      if alive_until > silent_from and silent_until - silent_from > 2 * session[3] then
        alive_until = max(alive_until, silent_until + session[3])
      end
      if alive_until > now then
        head, head_ticket, head_until = its_id, its_ticket, alive_until
      else
        leaving[#leaving + 1], leaving[its_id], waiting = its_id, true, waiting - 1
      end
    end
  end
  again = not head and looked == BATCH and waiting > 0
  local grantee, its_terms, its_ticket, its_end = contender, terms, place, ends
  if head then
    grantee, its_terms, its_ticket = head, cmsgpack.unpack(call('HGET', lock, head)), head_ticket
    -- A claim: it lasts until its waiter has had a heartbeat to confirm it in, and ends with the session. So
    -- processes that died together cost one liveness window, not one each.
    its_end = min(now + max(its_terms[LEASE], its_terms[LIVENESS]), head_until)
  end
  if grantee and not again then
    if head or queued then leaving[#leaving + 1], leaving[grantee], waiting = grantee, true, waiting - 1 end
    stamp = max(raw, stamp + 1)
    token, grants = stamp, grants + 1
    -- If it does not hear of its grant in time, this ticket is its place in the queue again. A try has none: its
    -- token stands in.
    holder, holder_end, holder_token, holder_ticket = grantee, its_end, token, min(its_ticket, token)
    broken, cut, claim = 0, 0, (head or its_end < now + its_terms[LEASE]) and 1 or 0
    if head then messages[#messages + 1] = {its_terms, 'grant', head, token, its_ticket, its_end - now} end
    if holder_ticket > generation then
      -- All who came before the generation are gone, and with them the leases that they asked for.
      longest, longest_next, generation = longest_next, 0, stamp
    end
    longest, longest_next = max(longest, its_terms[LEASE]), max(longest_next, its_terms[LEASE])
  end
end

if contender and (joins or holder == contender) then
  -- Also of a waiter in the queue, whose terms may have changed.
  fields[1], fields[2] = contender, cmsgpack.pack(terms)
  longest, longest_next = max(longest, terms[LEASE]), max(longest_next, terms[LEASE])
  if holder ~= contender and not queued then
    waiting = waiting + 1
    sessions[client][2] = sessions[client][2] + 1
  end
end
-- commit: makes the planned writes in the one order that is safe in a slot that is migrating, where a script that
-- empties a key and touches it again fails halfway: the hash, which never becomes empty, additions, TTLs, one removal,
-- messages.
-- NEEDS: lost found found_holder found_waiting recorded ended_how contender queued joins moves place
-- NEEDS: sessions leaving fields messages
-- SETS: live_until ttl_until holder_end holder_token holder_ticket broken cut claim recorded keep_us its_id
do
  local stands = holder ~= '' or waiting > 0
  if waiting == 0 then live_until = 0 end
  if holder == '' then holder_end, holder_token, holder_ticket, broken, cut, claim = 0, 0, 0, 0, 0, 0 end
  keep_us = min(longest, HOUR_US * 5 / 6)
  -- If TIME was set back, stamps ahead of it must be remembered until it has caught up.
  local rest_us = max(max(recover_until, holder_end, live_until) - now, stamp - raw, 0)
  -- An idle lock that was granted only once is forgotten after an hour, because a million names may be used like that;
  -- any other after a day, because tokens must rise over a clock that jumps forwards and back.
  local needed_until = raw + ((stands or grants > 1) and DAY_US or HOUR_US) + rest_us
  local new_ttl = lost or ttl_until < needed_until or ttl_until > needed_until + 2 * SLACK_US
  if new_ttl then ttl_until = needed_until + SLACK_US end
  local adds = joins and holder ~= contender and (moves or not queued)

  -- A session is removed with its last waiter, an entry with the lease or the place, unless its id has the other now.
  local stays = found_holder == '' or found_holder == holder or joins and found_holder == contender
  local gone = stays and {} or {found_holder}
  for i = 1, #leaving do
    its_id = leaving[i]
    if its_id ~= holder then gone[#gone + 1] = its_id end
    -- session: the session of the client of a waiter, as it is planned, and until when that client counts as alive. After a
    -- silence of more than two of its heartbeats, which may have been an outage, a client that was alive before has the
    -- time for one more.
    -- NEEDS: its_id sessions silent_from silent_until
    -- SETS: its_client session sessions alive_until
    local its_client = string.match(its_id, CLIENT_OF)
    session = sessions[its_client] or {struct.unpack(SESSION, call('HGET', lock, its_client .. '.'))}
    sessions[its_client] = session
    alive_until = session[1]
    if alive_until > silent_from and silent_until - silent_from > 2 * session[3] then
      alive_until = max(alive_until, silent_until + session[3])
    end
    session[2] = session[2] - 1
  end
  for its_client, planned in pairs(sessions) do
    if planned[2] == 0 then
      gone[#gone + 1] = its_client .. '.'
    else
      fields[#fields + 1], fields[#fields + 2] = its_client .. '.', struct.pack(SESSION, unpack(planned))
    end
  end

  -- A user may lack the right to a command. The commands after the first write are made sure of before it, because a
  -- place or lease that is written by half looks like a loss of data to everybody else.
  local denied = may and (adds and not may('ZADD', waiters, 0, '') and 'zadd'
    or #leaving > 0 and not may('ZREM', waiters, '') and 'zrem'
    or #gone > 0 and not may('HDEL', lock, '') and 'hdel'
    or new_ttl and not may('PEXPIRE', lock, 1) and 'pexpire')
  if denied then return redis.error_reply('NOPERM this user has no right to run the command ' .. denied) end

  -- The history may outlive the state.
  local past = (recorded == 1 or not found) and string.sub(lock, 1, -5) .. HISTORY
  if not found then recorded = redis.pcall('EXISTS', past) == 1 and 1 or 0 end
  -- ended: what the history tells of a lease that has ended in this script.
  -- NEEDS: recorded holder holder_token found_holder found_token found_ticket found_end lapsed ended_how raw now
  -- SETS: ended
  local ended
  if recorded == 1 and found_holder ~= '' and (holder ~= found_holder or holder_token ~= found_token) then
    local entry = cmsgpack.unpack(call('HGET', lock, found_holder))
    local over_us = lapsed ~= '' and now - found_end or 0 -- since when it was over
    ended = cmsgpack.pack({found_holder, found_token, entry[LABEL], entry[OWNER], found_token - found_ticket,
      max(raw - over_us - found_token, 0), lapsed ~= '' and 'expired' or ended_how})
  end

  if lost then call('DEL', lock, waiters) end
  if stands or epoch > 0 then
    -- write: writes the numbers, the holder and the planned entries. A `lenient` script goes on when memory is short: once
    -- a script has written anything, the server accepts its other writes.
    -- NEEDS: lenient fields raw now
    -- SETS: numbers written
    local numbers = struct.pack(NUMBERS, VERSION, broken, cut, claim, recorded, stamp, token, epoch, now, skew, pace,
      pace_until, silent_from, silent_until, recover_from, recover_until, recover_pace, grants, longest, longest_next,
      generation, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket) .. holder
    local written = redis.pcall('HSET', lock, '', numbers, unpack(fields))
    if type(written) == 'table' then
      if not lenient or not string.find(written.err, 'OOM', 1, true) then return written end
      call('PEXPIRE', lock, string.format('%.0f', math.ceil((ttl_until - raw) / 1000)))
      call('HSET', lock, '', numbers, unpack(fields))
    end
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
  if ended then redis.pcall('XADD', past, 'NOMKSTREAM', 'MAXLEN', '~', PAST, '*', '', ended) end
  if new_ttl and recorded == 1 then redis.pcall('PEXPIRE', past, PAST_MS) end

  -- A client without the right to a channel must not undo the writes: heartbeats make up for the lost message.
  for i = 1, #messages do
    local its_terms, kind, to_id, its_token, its_ticket, its_left_us = unpack(messages[i])
    local to = its_terms[CHANNEL]
    local message = cmsgpack.pack({kind, 'epoch', epoch, 'stamp', stamp, 'id', to_id, 'lock', lock,
      'secret', its_terms[SECRET], 'token', its_token, 'ticket', its_ticket, 'left_us', its_left_us,
      'seat', struct.pack(SEAT, VERSION, epoch, its_ticket, its_token),
      'memory', struct.pack(MEMORY, VERSION, epoch, stamp, token, longest, max(pace, recover_pace))})
    -- A channel with a hash tag belongs to the slot of the lock. Up to Redis 6 there are none: all nodes get it.
    local sent = string.find(to, '{', 1, true) and redis.pcall('SPUBLISH', to, message)
    if type(sent) ~= 'number' then redis.pcall('PUBLISH', to, message) end
  end
end
-- answer: ends the script with its reply: a word, then names and values. The reply is one string with a MessagePack
-- array, because for Redis an array of its own costs as much as the rest of a script.
-- NEEDS: client word told again own_pace keep_us
-- SETS: told
if again then told[#told + 1], told[#told + 2] = 'again', 1 end
if client ~= '' then
  if cut == 0 and string.match(holder, CLIENT_OF) == client then
    if claim == 1 then told[#told + 1], told[#told + 2] = 'holder_claim', 1 end
    told = {'holder', holder, 'holder_token', holder_token, 'holder_ticket', holder_ticket,
      'holder_seat', struct.pack(SEAT, VERSION, epoch, holder_ticket, holder_token), unpack(told)}
  end
  -- What the client sends back with its next request.
  local known = epoch == 0 and ''
    or struct.pack(MEMORY, VERSION, epoch, stamp, token, longest, max(pace, recover_pace, own_pace))
  told = {'memory', known, 'keep_us', keep_us, unpack(told)}
end
return cmsgpack.pack({word, 'epoch', epoch, 'stamp', stamp, 'waiting', waiting,
  'lease_left_us', max(holder_end - now, 0), 'recover_left_us', max(recover_until - now, 0), unpack(told)})
