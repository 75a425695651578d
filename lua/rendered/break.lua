local their_token, force = tonumber(ARGV[1]), ARGV[2]
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
local contender, asked, asked_us, ends -- the asking id, its terms, its lease, and when that would end
local place = math.huge -- the contender's ticket; a try comes after all waiters
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
if lost then
  local last = not found and call('ZRANGE', waiters, '-1', '-1', 'WITHSCORES')[2]
  stamp = max(raw, stamp + 1, tonumber(last or 0) + 1)
  epoch = stamp
  if found then
    recover_from, recover_pace = now, max(recover_pace, pace)
    recover_until = max(now + max(3 * recover_pace, longest), live_until)
  end
  waiting, found_waiting, live_until, broken, cut, claim = 0, 0, 0, 0, 0, 0
  holder, holder_end, found_holder, lapsed = '', 0, '', ''
end
local client, word, told, own_pace = '', 'unknown', {'left_us', 0}, 0
if holder ~= '' and holder_token == their_token then
  word, told = 'told', {'left_us', holder_end - now}
  ended_how = 'broken'
  messages[1] = {call('HGET', lock, holder), 'break', holder, holder_token, holder_ticket, holder_end - now}
  token = max(token, their_token + 1)
  stamp = max(stamp, token)
  if force == '1' then
    word = 'ended'
    holder, holder_end = '', 0
  else
    broken = 1
  end
elseif their_token == 0 and force == '1' and now < recover_until then
  word = 'ended'
end
if word == 'ended' and now < recover_until then
  if recover_from > 0 then recover_until = max(now, recover_from + 3 * recover_pace) end
  if recover_until <= now then recover_pace = 0 end
  if holder ~= '' and cut == 1 then
    holder_end = min(holder_end, recover_until)
    if holder_end <= now then holder, holder_end = '', 0 end
  end
  recover_from = 0
end
if holder == '' and now >= recover_until then
  while not head and waiting > 0 and looked < BATCH do
    local found_id, its_ticket = unpack(call('ZRANGE', waiters, looked, looked, 'WITHSCORES'))
    its_id, its_ticket = found_id, tonumber(its_ticket)
    if not its_id or its_ticket >= place then break end
    looked = looked + 1
    if not leaving[its_id] then
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
  local grantee, its_lease, its_ticket, its_end, entry = contender, asked_us, place, ends, nil
  if head then
    grantee, entry, its_ticket = head, call('HGET', lock, head), head_ticket
    local its_liveness, _, _, its_us = struct.unpack('<dddd', entry)
    its_lease = its_us
    its_end = min(now + max(its_lease, its_liveness), head_until)
  end
  if grantee and not again then
    if head or queued then leaving[#leaving + 1], leaving[grantee], waiting = grantee, true, waiting - 1 end
    stamp = max(raw, stamp + 1)
    token, grants = stamp, grants + 1
    holder, holder_end, holder_token, holder_ticket = grantee, its_end, token, min(its_ticket, token)
    broken, cut, claim = 0, 0, (head or its_end < now + its_lease) and 1 or 0
    if head then messages[#messages + 1] = {entry, 'grant', head, token, its_ticket, its_end - now} end
    if holder_ticket > generation then
      longest, longest_next, generation = longest_next, 0, stamp
    end
    longest, longest_next = max(longest, its_lease), max(longest_next, its_lease)
  end
end
if contender and (joins or holder == contender) then
  fields[1], fields[2] = contender, asked
  longest, longest_next = max(longest, asked_us), max(longest_next, asked_us)
  if holder ~= contender and not queued then
    waiting = waiting + 1
    sessions[client][2] = sessions[client][2] + 1
  end
end
do
  local stands = holder ~= '' or waiting > 0
  if waiting == 0 then live_until = 0 end
  if holder == '' then holder_end, holder_token, holder_ticket, broken, cut, claim = 0, 0, 0, 0, 0, 0 end
  keep_us = min(longest, HOUR_US * 5 / 6)
  local rest_us = max(max(recover_until, holder_end, live_until) - now, stamp - raw, 0)
  local needed_until = raw + ((stands or grants > 1) and DAY_US or HOUR_US) + rest_us
  local new_ttl = lost or ttl_until < needed_until or ttl_until > needed_until + 2 * SLACK_US
  if new_ttl then ttl_until = needed_until + SLACK_US end
  local adds = joins and holder ~= contender and (moves or not queued)
  local stays = found_holder == '' or found_holder == holder or joins and found_holder == contender
  local gone = stays and {} or {found_holder}
  for i = 1, #leaving do
    its_id = leaving[i]
    if its_id ~= holder then gone[#gone + 1] = its_id end
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
  local denied = may and (adds and not may('ZADD', waiters, 0, '') and 'zadd'
    or #leaving > 0 and not may('ZREM', waiters, '') and 'zrem'
    or #gone > 0 and not may('HDEL', lock, '') and 'hdel'
    or new_ttl and not may('PEXPIRE', lock, 1) and 'pexpire')
  if denied then return redis.error_reply('NOPERM this user has no right to run the command ' .. denied) end
  local past = (recorded == 1 or not found) and string.sub(lock, 1, -5) .. HISTORY
  if not found then recorded = redis.pcall('EXISTS', past) == 1 and 1 or 0 end
  local ended
  if recorded == 1 and found_holder ~= '' and (holder ~= found_holder or holder_token ~= found_token) then
    local entry = call('HGET', lock, found_holder)
    local secret_size, label_size, owner_size, tag_size, secret_at = struct.unpack(TEXTS, entry, TEXTS_AT)
    local label_at = secret_at + secret_size
    local owner_at = label_at + label_size
    local tag_at = owner_at + owner_size
    local secret, label = string.sub(entry, secret_at, label_at - 1), string.sub(entry, label_at, owner_at - 1)
    local owner, tag = string.sub(entry, owner_at, tag_at - 1), string.sub(entry, tag_at, tag_at + tag_size - 1)
    local over_us = lapsed ~= '' and now - found_end or 0 -- since when it was over
    ended = cmsgpack.pack({found_holder, found_token, label, owner, found_token - found_ticket,
      max(raw - over_us - found_token, 0), lapsed ~= '' and 'expired' or ended_how})
  end
  if lost then call('DEL', lock, waiters) end
  if stands or epoch > 0 then
    local numbers = struct.pack(NUMBERS, VERSION, broken, cut, claim, recorded, stamp, token, epoch, now, skew, pace,
      pace_until, silent_from, silent_until, recover_from, recover_until, recover_pace, grants, longest, longest_next,
      generation, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket, #holder, holder) .. beyond
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
  if ended then redis.pcall('XADD', past, 'NOMKSTREAM', 'MAXLEN', '~', PAST, '*', '', ended) end
  if new_ttl and recorded == 1 then redis.pcall('PEXPIRE', past, PAST_MS) end
  for i = 1, #messages do
    local entry, kind, to_id, its_token, its_ticket, its_left_us = unpack(messages[i])
    local secret_size, label_size, owner_size, tag_size, secret_at = struct.unpack(TEXTS, entry, TEXTS_AT)
    local label_at = secret_at + secret_size
    local owner_at = label_at + label_size
    local tag_at = owner_at + owner_size
    local secret, label = string.sub(entry, secret_at, label_at - 1), string.sub(entry, label_at, owner_at - 1)
    local owner, tag = string.sub(entry, owner_at, tag_at - 1), string.sub(entry, tag_at, tag_at + tag_size - 1)
    local message = struct.pack('<Bc0dBBdddddBBdddHc0Bc0Hc0', #kind, kind, its_left_us, MEMORY_SIZE, VERSION, epoch,
      stamp, token, longest, max(pace, recover_pace), SEAT_SIZE, VERSION, epoch, its_ticket, its_token, #to_id, to_id,
      #secret, secret, #lock, lock)
    local to = string.match(lock, '^[^{]*') .. (tag ~= '' and '{' .. tag .. '}:' or '') .. 'client:'
      .. string.match(to_id, CLIENT_OF)
    local sent = tag ~= '' and redis.pcall('SPUBLISH', to, message)
    if type(sent) ~= 'number' then redis.pcall('PUBLISH', to, message) end
  end
end
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
