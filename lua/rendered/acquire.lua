local id, memory, seat, terms = unpack(ARGV)
local call, max, min, string, struct = redis.call, math.max, math.min, string, struct
local lock = KEYS[1]
local joining, lenient = false, true
local seat_epoch, seat_ticket, seat_token, seat_slot, seat_most = 0, 0, 0, 0, 0
local liveness_us, buffer_us, heartbeat_us, lease_us, room, most, as_claim, size1, size2, size3, size4, texts_at =
  struct.unpack('<dddddHBBHHH', terms)
if #terms < texts_at - 1 + size1 + size2 + size3 + size4 then return redis.error_reply('ERR the texts in terms are shorter than they say') end
if most == 0 then return redis.error_reply('ERR most must be at least 1') end
if most > 1000 then most = 1000 end
local dot = string.find(id, '.', 1, true) or 1
local client = string.sub(id, 1, dot - 1)
if client == '' or not string.find(id, '^%d+$', dot + 1) or #id > 1000 then return redis.error_reply('ERR an id must be CLIENT.NUMBER of at most 1000 bytes') end
joining, lenient = room > 0, false -- a server without memory admits no new waiters
local own_pace, left_us, shortest_us = heartbeat_us, lease_us, min(lease_us, liveness_us)
if liveness_us % 1 + buffer_us % 1 + heartbeat_us % 1 + lease_us % 1 + left_us % 1 ~= 0 or shortest_us < 50000
  or max(liveness_us, buffer_us, heartbeat_us, lease_us, left_us) > 2592000000000
  or min(liveness_us, buffer_us, heartbeat_us, lease_us, left_us) < 0 then return redis.error_reply('ERR times must be whole microseconds up to 30 days, and a lease or liveness at least 50 ms') end
local found = call('HGET', lock, '')
local layout, calm = 5, 0
if found then layout, calm = string.byte(found, 1, 2) end
if layout ~= 5 then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in layout %d, this client knows layout %d',
    layout or 0, 5))
end
if found and (not calm or calm > 1 or #found < (calm == 1 and 76 or 199)) then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in a form of layout %d that this client does not know',
    5))
end
local time = call('TIME')
local raw = time[1] * 1000000 + time[2]
if calm == 1 and seat == '' and (as_claim == 0 or lease_us <= liveness_us) then
  local _, _, epoch, stamp, seen, skew, grants, longest, longest_next, recover_from, ttl_until, taken_field, at =
    struct.unpack('<BBdddddddddHc0', found)
  local in_touch, known_pace = memory == '', 0
  if #memory >= 41 then
    local its_version, its_epoch, its_stamp, its_token, _, its_pace = struct.unpack('<Bddddd', memory)
    in_touch = its_version == 5 and its_epoch == epoch and its_stamp <= stamp and its_token <= stamp
    known_pace = its_pace
  end
  local now = raw + skew
  local spare_us = ttl_until - raw - 86400000000 - lease_us -- for how much longer than this lease needs it the keys live
  if in_touch and raw > stamp and now >= seen and spare_us >= 0 and spare_us <= 2 * 300000000
    and (taken_field == '' or not call('HGET', lock, taken_field)) then
    local field, beyond, numbers = '@' .. id, at > #found and '' or string.sub(found, at), nil
    stamp = joining and raw + 1 or raw
    grants, longest, longest_next = grants + 1, longest_next > lease_us and longest_next or lease_us, lease_us
    numbers = struct.pack('<BBdddddddddHc0', 5, 1, epoch, stamp, now, skew, grants, longest, longest_next, recover_from, ttl_until,
      #field, field) .. beyond
    local written = redis.pcall('HSET', lock, '', numbers, field, terms)
    if type(written) == 'table' then return written end
    return struct.pack('<Bc0BddddddBBdddddHBHc0BBdddHHdI', 7, 'granted', 2, 0, 0, 1, lease_us, 0, min(longest, 3000000000), 41, 5, epoch,
      stamp, stamp, longest, own_pace, 1, 0, #id, id, 29, 5, epoch, raw, stamp, 0, most, lease_us, 0)
  end
end
if memory ~= '' and #memory < 41 or seat ~= '' and #seat < 29 then return redis.error_reply('ERR a memory or seat is not one that a script of this layout gave') end
local memory_version, known_epoch, known_stamp, known_token, known_longest, known_pace = 5, 0, 0, 0, 0, 0
local seat_version = 5
if memory ~= '' then
  memory_version, known_epoch, known_stamp, known_token, known_longest, known_pace = struct.unpack('<Bddddd', memory)
end
if seat ~= '' then
  seat_version, seat_epoch, seat_ticket, seat_token, seat_slot, seat_most = struct.unpack('<BdddHH', seat)
end
if memory_version ~= 5 or seat_version ~= 5 then return redis.error_reply('ERR a memory or seat is not one that a script of this layout gave') end
if known_epoch % 1 + known_stamp % 1 + known_token % 1 + known_longest % 1 + known_pace % 1
  + seat_epoch % 1 + seat_ticket % 1 + seat_token % 1 ~= 0
  or known_longest > 2592000000000 or known_pace > 2592000000000 then
  known_stamp, known_longest, known_pace = math.huge, 0, 0
end
if seat_slot >= 1000 then return redis.error_reply('ERR a memory or seat is not one that a script of this layout gave') end
if seat_most > 1000 then seat_most = 1000 end
local waiters = string.sub(lock, 1, -5) .. 'waiters'
local version, recorded, stamp, token, epoch, seen, skew, pace, pace_next, pace_turn, silent_from, silent_until, recover_from,
  wait_places, wait_leases, sole, grants, longest, longest_next, generation, waiting, live_until, ttl_until, first_end,
  last_end, held, claims, limit, limited = 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  1000, 0
local tags, zeroth_size, zeroth_at, zeroth_in, taken_field, taken_id, taken = '', 0, 1, found or '', '', '', false
if calm == 1 then
  version, calm, epoch, stamp, seen, skew, grants, longest, longest_next, recover_from, ttl_until, taken_field, zeroth_at =
    struct.unpack('<BBdddddddddHc0', found)
  token, generation = stamp, stamp
  taken_id, taken = string.sub(taken_field, 2), taken_field ~= '' and call('HGET', lock, taken_field)
elseif found then
  version, calm, recorded, stamp, token, epoch, seen, skew, pace, pace_next, pace_turn, silent_from, silent_until,
    recover_from, wait_places, wait_leases, sole, grants, longest, longest_next, generation, waiting, live_until,
    ttl_until, first_end, last_end, held, claims, limit, limited, tags, zeroth_size, zeroth_at = struct.unpack('<BBBdddddddddddddddddddddddHHHHHc0H', found)
end
local beyond = found and string.sub(found, zeroth_at + zeroth_size) or '' -- what a later version of the scripts has added
if taken then
  local _, _, _, its_lease, _, its_most = struct.unpack('<dddddHBBHHH', taken)
  local of_id = taken_id
  local client_1, client_2 = string.byte(of_id, 1, 2)
  local last_3, last_2, last_1 = string.byte(of_id, -3, -1)
  local tag = string.char(client_1, client_2, last_3, (10 * last_2 + last_1) % 255 + 1)
  held, limit, limited, tags, first_end, last_end = 1, min(its_most, 1000), 1, tag, seen + its_lease, seen + its_lease
  zeroth_in = struct.pack('<HBBdddHc0', limit, 0, 0, first_end, token, seen - skew, #taken_id, taken_id)
  zeroth_size, zeroth_at = #zeroth_in, 1
end
local found_waiting = waiting
local lost = (waiting > 0 or not found or joining and (held > 0 or recover_from > 0))
  and call('ZCARD', waiters) ~= waiting
local now, recover_until = raw + skew, 0
recover_until = recover_from
if wait_places > 0 or wait_leases > 0 then
  recover_until = recover_from + max(3 * wait_places, sole > 0 and sole >= token and 0 or wait_leases)
end
if live_until <= seen then
  pace, pace_next, pace_turn = 0, 0, 0
elseif pace > 0 then
  if now > seen + 2 * pace and now <= max(last_end, live_until, recover_until) + 3600000000 then now = seen + 2 * pace end
  local latest_us = silent_until - silent_from
  if now > seen and (now - seen > latest_us or now - silent_until > latest_us / 1.5 or now - silent_until > 3600000000) then
    silent_from, silent_until = seen, now
  end
end
if now < seen then now = seen end
skew = now - raw
if now >= recover_until then wait_places, wait_leases = 0, 0 end
local contender, asked, asked_us, asked_most, ends
local place = math.huge -- the contender's ticket; a try comes after all waiters
local queued, joins, moves
local sessions = {} -- by client, as planned: {until when it counts as alive, how many waiters it has, its heartbeat}
local leaving = {} -- the ids that leave the queue, a list and a set
local fields, messages = {}, {} -- entries to write, and messages to publish
local named, every -- the ids whose leases are read, and whether all are
local ended = {} -- the leases that ended in this script
local dropped = false -- whether the leases that are found are from before a loss of data
local looked = 0 -- how many were examined
local its_id, session, alive_until -- the waiter that was examined last, and its client's session
local head, head_ticket, head_until, head_beat -- the first live waiter among them, and the heartbeat of its client
local numbers -- the state, packed
local position, own = 0, {}
local again = false -- whether a limit was reached, so that the caller asks again
if lost then
  local last = not found and call('ZRANGE', waiters, '-1', '-1', 'WITHSCORES')[2]
  stamp = max(stamp, tonumber(last or 0))
  if joining then call('ZCARD', waiters) end
  stamp = max(raw, stamp + 1)
  epoch, recover_from, wait_places, sole = stamp, now, max(wait_places, pace), 0
  dropped = true
  wait_places, wait_leases = max(wait_places, own_pace), max(wait_leases, longest, live_until - now)
  if wait_places + wait_leases == 0 then recover_from = 0 end
  waiting, found_waiting, live_until, pace, pace_next, pace_turn = 0, 0, 0, 0, 0, 0
  recover_until = recover_from
  if wait_places > 0 or wait_leases > 0 then
    recover_until = recover_from + max(3 * wait_places, sole > 0 and sole >= token and 0 or wait_leases)
  end
end
local word, told = 'disbelieved', nil
local believed
do
  local highest = max(known_epoch, known_stamp, known_token, seat_epoch, seat_ticket, seat_token)
  believed = highest <= stamp or highest <= raw + 86400000000
  if believed then
    local knows = known_epoch > 0 -- a stranger knows of no loss
    local ahead = knows and (known_epoch > epoch or seat_epoch > epoch
      or known_epoch == epoch and (known_stamp > stamp or known_token > token)
      or seat_epoch == epoch and (seat_ticket > stamp or seat_token > token))
    local behind = knows and (known_epoch < epoch or seat_epoch > 0 and seat_epoch < epoch)
    local opens = ahead or behind and recover_from == 0
    if highest > stamp then stamp = highest end
    if opens then
      if joining then call('ZCARD', waiters) end
      stamp = max(raw, stamp + 1)
      epoch, recover_from, wait_places, sole = stamp, now, max(wait_places, pace), 0
    end
    if opens or behind and now < recover_until then
      local lasts_us = max(left_us, known_longest)
      wait_places, wait_leases = max(wait_places, known_pace, own_pace), max(wait_leases, lasts_us)
      token, longest = max(token, known_token, seat_token), max(longest, lasts_us)
      recover_until = recover_from
      if wait_places > 0 or wait_leases > 0 then
        recover_until = recover_from + max(3 * wait_places, sole > 0 and sole >= token and 0 or wait_leases)
      end
    end
    dropped = dropped or ahead
  end
end
named = {id}
local leases = {} -- a list, also of those that have ended; and by id
for i = 1, held > 0 and named and #named or 0 do
  local of_id = named[i]
  local client_1, client_2 = string.byte(of_id, 1, 2)
  local last_3, last_2, last_1 = string.byte(of_id, -3, -1)
  local tag = string.char(client_1, client_2, last_3, (10 * last_2 + last_1) % 255 + 1)
  local tag_at = string.find(tags, tag, 1, true)
  while tag_at do
    if tag_at % 4 == 1 then
      local slot = (tag_at - 1) / 4
      local text, from, till = zeroth_in, zeroth_at, zeroth_at + zeroth_size - 1
      if slot > 0 then
        text, from = call('HGET', lock, struct.pack('<c1H', '#', slot)) or '', 1
        till = #text
      end
      if from > till then text, from = struct.pack('<HBBdddHc0', 1000, 0, 0, 0, 0, 0, 4, string.format('?%03d', slot)), 1 end
      local its_most, claim, broken, its_end, its_token, its_ticket, holder, at = struct.unpack('<HBBdddHc0', text, from)
      local lease = {slot = slot, most = its_most, claim = claim, broken = broken, ends = its_end, token = its_token,
        ticket = its_ticket, id = holder, beyond = at <= till and string.sub(text, at, till) or ''}
      if claim == 1 and broken == 0 and its_end <= now and its_end > silent_from then
        local _, _, its_beat = struct.unpack('<dddddHBBHHH', call('HGET', lock, holder))
        if silent_until - silent_from > 1.5 * its_beat then lease.ends = max(its_end, silent_until + its_beat) end
      end
      if not leases[holder] then
        leases[#leases + 1], leases[holder], held, claims = lease, lease, held - 1, claims - claim
        if its_most == limit then limited = limited - 1 end
        if its_token == 0 then first_end = 0 end -- a tag without its lease: counters are made anew
      end
    end
    tag_at = tag_at + 4 <= #tags and string.find(tags, tag, tag_at + 1, true)
  end
end
local mine = named and leases[named[1]]
local conflicts = now < recover_until and seat_token > 0 and seat_epoch < epoch
  and not (mine and mine.token == seat_token)
  and (held + #leases >= min(limit, seat_most) or (string.byte(tags, 4 * seat_slot + 4) or 0) > 0)
if held == 0 or limited == 0 or first_end <= now or conflicts or every or dropped then
  for slot = 0, held > 0 and #tags / 4 - 1 or -1 do
    if string.sub(tags, 4 * slot + 1, 4 * slot + 4) ~= '\0\0\0\0' then
      local text, from, till = zeroth_in, zeroth_at, zeroth_at + zeroth_size - 1
      if slot > 0 then
        text, from = call('HGET', lock, struct.pack('<c1H', '#', slot)) or '', 1
        till = #text
      end
      if from > till then text, from = struct.pack('<HBBdddHc0', 1000, 0, 0, 0, 0, 0, 4, string.format('?%03d', slot)), 1 end
      local its_most, claim, broken, its_end, its_token, its_ticket, holder, at = struct.unpack('<HBBdddHc0', text, from)
      local lease = {slot = slot, most = its_most, claim = claim, broken = broken, ends = its_end, token = its_token,
        ticket = its_ticket, id = holder, beyond = at <= till and string.sub(text, at, till) or ''}
      if claim == 1 and broken == 0 and its_end <= now and its_end > silent_from then
        local _, _, its_beat = struct.unpack('<dddddHBBHHH', call('HGET', lock, holder))
        if silent_until - silent_from > 1.5 * its_beat then lease.ends = max(its_end, silent_until + its_beat) end
      end
      if not leases[holder] then
        leases[#leases + 1], leases[holder], held, claims = lease, lease, held - 1, claims - claim
        if its_most == limit then limited = limited - 1 end
        if its_token == 0 then first_end = 0 end -- a tag without its lease: counters are made anew
      end
    end
  end
  limit, limited, claims, first_end, last_end = 1000, 0, 0, math.huge, 0
end
for i = 1, dropped and #leases or 0 do leases[i].ends, leases[i].how = min(leases[i].ends, now), 'lost' end
if not believed then
  for i = 1, #leases do
    local lease = leases[i]
    if lease.ends > now then
      held, claims = held + 1, claims + lease.claim
      if lease.ends < first_end then first_end = lease.ends end
      if lease.ends > last_end then last_end = lease.ends end
      if lease.most < limit then limit, limited = lease.most, 0 end
      if lease.most == limit then limited = limited + 1 end
    else
      ended[#ended + 1] = lease
    end
  end
  local holes = {}
  if held == 0 then
    tags = ''
  elseif #ended > 0 then
    table.sort(ended, function(one, other) return one.slot < other.slot end)
    for i = 1, #ended do
      if not ended[i].replaced then holes[#holes + 1] = ended[i].slot end
    end
  end
  local for_people = told and cmsgpack.pack(told) or ''
  for i = 1, client ~= '' and #named + #messages or 0 do
    local lease = i > #named and messages[i - #named][1] or leases[named[i]]
    if lease and lease.ends > now and not lease.told and string.find(lease.id, client, 1, true) == 1
      and string.byte(lease.id, #client + 1) == 46 then
      lease.told = true
      own[#own + 1] = struct.pack('<BHc0BBdddHHd', lease.claim, #lease.id, lease.id, 29, 5, epoch, lease.ticket,
        lease.token, lease.slot, lease.most, lease.ends - now)
    end
  end
  local keep_us, told_pace = longest < 3000000000 and longest or 3000000000, pace > wait_places and pace or wait_places
  if own_pace > told_pace then told_pace = own_pace end
  return struct.pack('<Bc0BddddddBBdddddHc0Ic0', #word, word, again and 1 or 0, position, waiting, held, held > 0 and first_end - now or 0,
    now < recover_until and recover_until - now or 0, keep_us, 41, 5, epoch, stamp, token,
    longest, told_pace, #own, own[2] and table.concat(own) or own[1] or '', #for_people, for_people)
end
if epoch == 0 then
  stamp = max(raw, stamp + 1)
  epoch = stamp
end
local own_session
if not mine or mine.ends <= now then
  contender, asked, asked_us, asked_most = id, terms, lease_us, most
  ends = now + (as_claim == 1 and min(lease_us, liveness_us) or lease_us)
  own_session = joining and waiting > 0 and call('HGET', lock, client .. '.')
  queued = own_session and tonumber(call('ZSCORE', waiters, id))
  if joining and seat_ticket > 0 then place = seat_ticket end
  if queued then place, moves = min(place, queued), place < queued end
  if own_session then
    local until_now, count = struct.unpack('<ddd', own_session or string.rep('\0', 24))
    local session_end = now + liveness_us + buffer_us
    if until_now > session_end then session_end = until_now end
    sessions[client] = {session_end, count, heartbeat_us}
    if session_end > live_until then live_until = session_end end
    if now >= pace_turn + 3 * pace then pace, pace_next, pace_turn = pace_next, 0, live_until end
    if heartbeat_us > pace_next then pace_next = heartbeat_us end
    if pace_next > pace then pace = pace_next end
  end
  if joining and place == math.huge and waiting >= room then
    while not head and waiting > 0 and looked < 100 do
      local at_rank = looked == 0 and '0' or looked -- to make a text of a number costs as much as a small command
      local found_id, its_ticket = unpack(call('ZRANGE', waiters, at_rank, at_rank, 'WITHSCORES'))
      its_id, its_ticket = found_id, tonumber(its_ticket)
      if not its_id or its_ticket >= place then break end
      looked = looked + 1
      if not leaving[its_id] then
        local its_client = string.sub(its_id, 1, string.find(its_id, '.', 1, true) - 1)
        session = sessions[its_client] or {struct.unpack('<ddd', call('HGET', lock, its_client .. '.'))}
        sessions[its_client] = session
        alive_until = session[1]
        if alive_until > silent_from and silent_until - silent_from > 1.5 * session[3] then
          alive_until = max(alive_until, silent_until + session[3])
        end
        if alive_until > now then
          head, head_ticket, head_until, head_beat = its_id, its_ticket, alive_until, session[3]
        else
          leaving[#leaving + 1], leaving[its_id], waiting = its_id, true, waiting - 1
        end
      end
    end
    again = not head and looked == 100 and waiting > 0
  end
  joins = joining and (place < math.huge or waiting < room)
  if joins and place == math.huge then
    stamp = max(raw, stamp + 1)
    place = stamp
  end
end
for i = 1, #leases do
  local lease = leases[i]
  if lease.ends > now then
    held, claims = held + 1, claims + lease.claim
    if lease.ends < first_end then first_end = lease.ends end
    if lease.ends > last_end then last_end = lease.ends end
    if lease.most < limit then limit, limited = lease.most, 0 end
    if lease.most == limit then limited = limited + 1 end
  else
    ended[#ended + 1] = lease
  end
end
local holes = {}
if held == 0 then
  tags = ''
elseif #ended > 0 then
  table.sort(ended, function(one, other) return one.slot < other.slot end)
  for i = 1, #ended do
    if not ended[i].replaced then holes[#holes + 1] = ended[i].slot end
  end
end
while (contender or waiting > 0) and held < limit and now >= recover_until do
  while not head and waiting > 0 and looked < 100 do
    local at_rank = looked == 0 and '0' or looked -- to make a text of a number costs as much as a small command
    local found_id, its_ticket = unpack(call('ZRANGE', waiters, at_rank, at_rank, 'WITHSCORES'))
    its_id, its_ticket = found_id, tonumber(its_ticket)
    if not its_id or its_ticket >= place then break end
    looked = looked + 1
    if not leaving[its_id] then
      local its_client = string.sub(its_id, 1, string.find(its_id, '.', 1, true) - 1)
      session = sessions[its_client] or {struct.unpack('<ddd', call('HGET', lock, its_client .. '.'))}
      sessions[its_client] = session
      alive_until = session[1]
      if alive_until > silent_from and silent_until - silent_from > 1.5 * session[3] then
        alive_until = max(alive_until, silent_until + session[3])
      end
      if alive_until > now then
        head, head_ticket, head_until, head_beat = its_id, its_ticket, alive_until, session[3]
      else
        leaving[#leaving + 1], leaving[its_id], waiting = its_id, true, waiting - 1
      end
    end
  end
  again = not head and looked == 100 and waiting > 0
  if again or not head and not contender then break end
  local entry, its_lease, its_most, its_ticket, its_end = asked, asked_us, asked_most, place, ends
  its_id = head or contender
  if head then
    local its_liveness, _
    entry, its_ticket = call('HGET', lock, head), head_ticket
    its_liveness, _, _, its_lease, _, its_most = struct.unpack('<dddddHBBHHH', entry)
    its_most, its_end = min(its_most, 1000), now + max(its_lease, its_liveness, 3 * head_beat)
    if its_end > now + 2592000000000 then its_end = now + 2592000000000 end
    if its_end > head_until then its_end = head_until end
  end
  if held >= its_most then break end
  if head and #messages == 16 then
    again = true
    break
  end
  if head or queued then leaving[#leaving + 1], leaving[its_id], waiting = its_id, true, waiting - 1 end
  stamp = max(raw, stamp + 1)
  token, grants = stamp, grants + 1
  wait_places, wait_leases = 0, 0 -- no later token opens again what is over
  local lowest = ((string.find(tags, '\0\0\0\0', 1, true) or #tags + 1) - 1) / 4
  if holes[1] and holes[1] < lowest then lowest = table.remove(holes, 1) end
  local lease = {slot = lowest, most = its_most,
    claim = (head or its_end < now + its_lease) and 1 or 0, broken = 0, ends = its_end, token = token,
    ticket = min(its_ticket, token), id = its_id, beyond = ''}
  leases[#leases + 1], leases[its_id] = lease, lease
  do
    local of_id, behind = lease.id, 4 * lease.slot + 5
    local client_1, client_2 = string.byte(of_id, 1, 2)
    local last_3, last_2, last_1 = string.byte(of_id, -3, -1)
    local tag = string.char(client_1, client_2, last_3, (10 * last_2 + last_1) % 255 + 1)
    tags = (behind > #tags + 4 and tags or string.sub(tags, 1, behind - 5)) .. tag .. string.sub(tags, behind)
    lease.changed = true
  end
  if lease.ticket > generation then
    longest, longest_next, generation = max(longest_next, last_end - now), 0, stamp
  end
  longest, longest_next = max(longest, its_lease), max(longest_next, its_lease)
  held, claims = held + 1, claims + lease.claim
  if lease.ends < first_end then first_end = lease.ends end
  if lease.ends > last_end then last_end = lease.ends end
  if lease.most < limit then limit, limited = lease.most, 0 end
  if lease.most == limit then limited = limited + 1 end
  if head then
    messages[#messages + 1] = {lease, 'grant', entry, its_end - now}
  else
    fields[#fields + 1], fields[#fields + 2] = its_id, entry
  end
  if its_id == contender then contender, place, queued = nil, math.huge, nil end
  head = nil
end
if #holes > 0 then
  local pieces, from = {}, 1
  for i = 1, #holes do
    pieces[i] = string.sub(tags, from, 4 * holes[i]) .. '\0\0\0\0'
    from = 4 * holes[i] + 5
  end
  tags = string.match(table.concat(pieces) .. string.sub(tags, from), '^.*%Z')
end
if contender and joins then
  fields[1], fields[2] = contender, terms
  longest, longest_next = max(longest, lease_us), max(longest_next, lease_us)
  if not sessions[client] then
    local until_now, count = struct.unpack('<ddd', own_session or string.rep('\0', 24))
    local session_end = now + liveness_us + buffer_us
    if until_now > session_end then session_end = until_now end
    sessions[client] = {session_end, count, heartbeat_us}
    if session_end > live_until then live_until = session_end end
    if now >= pace_turn + 3 * pace then pace, pace_next, pace_turn = pace_next, 0, live_until end
    if heartbeat_us > pace_next then pace_next = heartbeat_us end
    if pace_next > pace then pace = pace_next end
  end
  if not queued then
    waiting = waiting + 1
    sessions[client][2] = sessions[client][2] + 1
  end
end
do
  local stands = held > 0 or waiting > 0
  if waiting == 0 and claims == 0 then live_until = 0 end
  local rest_us = max(recover_until - now, last_end - now, live_until - now, stamp - raw, 0)
  local needed_until = raw + ((stands or grants > 1) and 86400000000 or 3600000000) + rest_us
  local new_ttl = lost or ttl_until < needed_until or ttl_until > needed_until + 2 * 300000000
  if new_ttl then ttl_until = needed_until + 300000000 end
  local adds = contender and joins and (moves or not queued)
  calm = not stands and grants > 1 and stamp == token and recorded == 0 and live_until == 0
    and now >= recover_until and 1 or 0
  local past = (recorded == 1 or not found) and string.sub(lock, 1, -5) .. 'history'
  if not found then recorded = redis.pcall('EXISTS', past) == 1 and 1 or 0 end
  local gone, rows = {}, recorded == 1 and {}
  for i = 1, #ended do
    local lease = ended[i]
    local now_held = leases[lease.id]
    if now_held.ends <= now and (not joins or lease.id ~= contender) then gone[#gone + 1] = lease.id end
    local entry = recorded == 1 and call('HGET', lock, lease.id)
    if entry then
      local secret_size, label_size, owner_size, tag_size, secret_at = struct.unpack('<BHHH', entry, 44)
      local label_at = secret_at + secret_size
      local owner_at = label_at + label_size
      local tag_at = owner_at + owner_size
      local secret, label = string.sub(entry, secret_at, label_at - 1), string.sub(entry, label_at, owner_at - 1)
      local owner, tag = string.sub(entry, owner_at, tag_at - 1), string.sub(entry, tag_at, tag_at + tag_size - 1)
      rows[#rows + 1] = cmsgpack.pack({lease.id, lease.token, label, owner, lease.token - lease.ticket,
        max(raw - (now - lease.ends) - lease.token, 0), lease.how or 'expired', lease.slot})
    end
  end
  for i = 1, #leaving do
    its_id = leaving[i]
    local now_held = leases[its_id]
    if not now_held or now_held.ends <= now then gone[#gone + 1] = its_id end
    local its_client = string.sub(its_id, 1, string.find(its_id, '.', 1, true) - 1)
    session = sessions[its_client] or {struct.unpack('<ddd', call('HGET', lock, its_client .. '.'))}
    sessions[its_client] = session
    alive_until = session[1]
    if alive_until > silent_from and silent_until - silent_from > 1.5 * session[3] then
      alive_until = max(alive_until, silent_until + session[3])
    end
    session[2] = session[2] - 1
  end
  if taken then
    gone[#gone + 1] = taken_field
    local now_held = leases[taken_id] -- if it was not read, it stands
    if (not now_held or now_held.ends > now) and fields[1] ~= taken_id then
      fields[#fields + 1], fields[#fields + 2] = taken_id, taken
    end
  end
  for its_client, planned in next, sessions do
    if planned[2] == 0 then
      gone[#gone + 1] = its_client .. '.'
    else
      fields[#fields + 1], fields[#fields + 2] = its_client .. '.', struct.pack('<ddd', unpack(planned))
    end
  end
  local may = redis.acl_check_cmd -- Redis 6 cannot be asked
  local denied = may and (adds and not may('ZADD', waiters, 0, '') and 'zadd'
    or #leaving > 0 and not may('ZREM', waiters, '') and 'zrem'
    or #gone > 0 and not may('HDEL', lock, '') and 'hdel'
    or new_ttl and not may('PEXPIRE', lock, 1) and 'pexpire')
  if denied then return redis.error_reply('NOPERM this user has no right to run the command ' .. denied) end
  if lost then call('DEL', lock, waiters) end
  if stands or epoch > 0 then
    local zeroth = held == 0 and '' -- the lease of slot 0
    for i = 1, #leases do
      local lease = leases[i]
      if lease.changed and lease.ends > now then
        local text = struct.pack('<HBBdddHc0', lease.most, lease.claim, lease.broken, lease.ends, lease.token, lease.ticket,
          #lease.id, lease.id) .. lease.beyond
        if lease.slot == 0 then
          zeroth = text
        else
          fields[#fields + 1], fields[#fields + 2] = struct.pack('<c1H', '#', lease.slot), text
        end
      end
    end
    if not zeroth then
      zeroth = zeroth_size > 0 and string.byte(tags, 4) > 0 and string.sub(zeroth_in, zeroth_at, zeroth_at + zeroth_size - 1)
        or ''
    end
    if calm == 1 then
      local field = '' -- nobody holds it
      numbers = struct.pack('<BBdddddddddHc0', 5, 1, epoch, stamp, now, skew, grants, longest, longest_next, recover_from, ttl_until,
        #field, field) .. beyond
    else
      numbers = struct.pack('<BBBdddddddddddddddddddddddHHHHHc0Hc0', 5, 0, recorded, stamp, token, epoch, now, skew, pace, pace_next, pace_turn, silent_from,
        silent_until, recover_from, wait_places, wait_leases, sole, grants, longest, longest_next, generation, waiting,
        live_until, ttl_until, held > 0 and first_end or 0, last_end, held, claims, limit, limited, #tags, tags, #zeroth,
        zeroth) .. beyond
    end
    local written = redis.pcall('HSET', lock, '', numbers, unpack(fields))
    if type(written) == 'table' then
      if not lenient or not string.find(written.err, 'OOM', 1, true) then return written end
      call('PEXPIRE', lock, string.format('%.0f', math.ceil((ttl_until - raw) / 1000)))
      call('HSET', lock, '', numbers, unpack(fields))
    end
  end
  if #gone > 0 then redis.pcall('HDEL', lock, unpack(gone)) end
  if adds then call('ZADD', waiters, place, contender) end
  if new_ttl or waiting > 0 and found_waiting == 0 then
    local ttl = string.format('%.0f', math.ceil((ttl_until - raw) / 1000))
    if new_ttl then call('PEXPIRE', lock, ttl) end
    if waiting > 0 then call('PEXPIRE', waiters, ttl) end
  end
  if #leaving > 0 then call('ZREM', waiters, unpack(leaving)) end
  for i = 1, rows and #rows or 0 do redis.pcall('XADD', past, 'NOMKSTREAM', 'MAXLEN', '~', '1000', '*', '', rows[i]) end
  if new_ttl and recorded == 1 then redis.pcall('PEXPIRE', past, '604800000') end
  for i = 1, #messages do
    local lease, kind, entry, its_left_us = unpack(messages[i])
    local secret_size, label_size, owner_size, tag_size, secret_at = struct.unpack('<BHHH', entry, 44)
    local label_at = secret_at + secret_size
    local owner_at = label_at + label_size
    local tag_at = owner_at + owner_size
    local secret, label = string.sub(entry, secret_at, label_at - 1), string.sub(entry, label_at, owner_at - 1)
    local owner, tag = string.sub(entry, owner_at, tag_at - 1), string.sub(entry, tag_at, tag_at + tag_size - 1)
    local message = struct.pack('<Bc0dBBdddddBBdddHHHc0Bc0Hc0', #kind, kind, its_left_us, 41, 5, epoch,
      stamp, token, longest, max(pace, wait_places), 29, 5, epoch, lease.ticket, lease.token, lease.slot,
      lease.most, #lease.id, lease.id, #secret, secret, #lock, lock)
    local to = string.match(lock, '^[^{]*') .. (tag ~= '' and '{' .. tag .. '}:' or '') .. 'client:'
      .. string.sub(lease.id, 1, string.find(lease.id, '.', 1, true) - 1)
    local sent = tag ~= '' and redis.pcall('SPUBLISH', to, message)
    if type(sent) ~= 'number' then redis.pcall('PUBLISH', to, message) end
  end
end
mine = leases[id]
if mine and mine.ends > now then
  word = 'granted'
elseif joins then
  word = 'queued'
  position = (queued or seat_ticket > 0) and call('ZRANK', waiters, id) + 1 or waiting
  own[1] = struct.pack('<BHc0BBdddHHd', 0, #id, id, 29, 5, epoch, place, 0, 0, most, 0)
else
  word = 'busy'
  local tell_from, tell_most = 0, 16
  local holders, by_slot = {}, {}
  for i = 1, #leases do
    if leases[i].ends > now then by_slot[leases[i].slot] = leases[i] end
  end
  for slot = tell_from, #tags / 4 - 1 do
    if #holders == tell_most then break end
    if string.sub(tags, 4 * slot + 1, 4 * slot + 4) ~= '\0\0\0\0' then
      local told_of = by_slot[slot]
      if not told_of then
        local text, from, till = zeroth_in, zeroth_at, zeroth_at + zeroth_size - 1
        if slot > 0 then
          text, from = call('HGET', lock, struct.pack('<c1H', '#', slot)) or '', 1
          till = #text
        end
        if from > till then text, from = struct.pack('<HBBdddHc0', 1000, 0, 0, 0, 0, 0, 4, string.format('?%03d', slot)), 1 end
        local its_most, claim, broken, its_end, its_token, its_ticket, holder, at = struct.unpack('<HBBdddHc0', text, from)
        local lease = {slot = slot, most = its_most, claim = claim, broken = broken, ends = its_end, token = its_token,
          ticket = its_ticket, id = holder, beyond = at <= till and string.sub(text, at, till) or ''}
        if claim == 1 and broken == 0 and its_end <= now and its_end > silent_from then
          local _, _, its_beat = struct.unpack('<dddddHBBHHH', call('HGET', lock, holder))
          if silent_until - silent_from > 1.5 * its_beat then lease.ends = max(its_end, silent_until + its_beat) end
        end
        told_of = lease
      end
      if told_of.ends > now then
        local entry = told_of.id == taken_id and taken or call('HGET', lock, told_of.id)
        local secret_size, label_size, owner_size, tag_size, secret_at = struct.unpack('<BHHH', entry, 44)
        local label_at = secret_at + secret_size
        local owner_at = label_at + label_size
        local tag_at = owner_at + owner_size
        local secret, label = string.sub(entry, secret_at, label_at - 1), string.sub(entry, label_at, owner_at - 1)
        local owner, tag = string.sub(entry, owner_at, tag_at - 1), string.sub(entry, tag_at, tag_at + tag_size - 1)
        holders[#holders + 1] = {told_of.id, slot, told_of.token, told_of.most, label, owner, max(raw - told_of.token, 0),
          told_of.claim, told_of.broken, told_of.ends - now}
      end
    end
  end
  told = {'holders', holders}
end
local for_people = told and cmsgpack.pack(told) or ''
for i = 1, client ~= '' and #named + #messages or 0 do
  local lease = i > #named and messages[i - #named][1] or leases[named[i]]
  if lease and lease.ends > now and not lease.told and string.find(lease.id, client, 1, true) == 1
    and string.byte(lease.id, #client + 1) == 46 then
    lease.told = true
    own[#own + 1] = struct.pack('<BHc0BBdddHHd', lease.claim, #lease.id, lease.id, 29, 5, epoch, lease.ticket,
      lease.token, lease.slot, lease.most, lease.ends - now)
  end
end
local keep_us, told_pace = longest < 3000000000 and longest or 3000000000, pace > wait_places and pace or wait_places
if own_pace > told_pace then told_pace = own_pace end
return struct.pack('<Bc0BddddddBBdddddHc0Ic0', #word, word, again and 1 or 0, position, waiting, held, held > 0 and first_end - now or 0,
  now < recover_until and recover_until - now or 0, keep_us, 41, 5, epoch, stamp, token,
  longest, told_pace, #own, own[2] and table.concat(own) or own[1] or '', #for_people, for_people)
