-- Scripts read first and only plan their writes; commit() then makes them in the one order that is safe in a slot
-- that is migrating (a script that empties a key and touches it again is cut in the middle): add, set TTLs, remove
-- with one command per key, publish.
local DAY_MS, HOUR_MS = 86400000, 3600000
local new_entries = {} -- id, entry, ...
local joined, joined_at -- who joins the queue, and where
local prolonged, prolonged_until -- whose session is prolonged, and until when
local leaving, gone = {}, {} -- ids that leave the queue, and those whose entries go
local dead = {} -- sessions that were found to have ended
local messages = {}
if lapsed ~= '' then gone[lapsed] = true end

local function put_entry(id, entry)
  gone[id] = nil
  new_entries[#new_entries + 1] = id
  new_entries[#new_entries + 1] = cmsgpack.pack(entry)
end

local function drop_lease()
  gone[holder] = true
  holder, holder_end, held = '', 0, nil
end

local function drop_waiter(id)
  leaving[id], gone[id] = true, true
  waiting = waiting - 1
end

-- Redis turns whole numbers below 2^53 into exact text by itself, in commands and in replies; Lua alone would not.
local function publish(entry, kind, id, of_token, left_us)
  messages[#messages + 1] = {entry[CHANNEL], string.format('%s %s %.0f %.0f %s', kind, id, of_token, left_us, queue)}
end

local function remove(command, key, members)
  if not next(members) then return end
  local list = {}
  for member in pairs(members) do list[#list + 1] = member end
  redis.call(command, key, unpack(list))
end

-- `lenient` scripts begin with a write that memory limits do not refuse, which lets the rest of them through.
local function commit(lenient)
  local stands = holder ~= '' or waiting > 0
  local ttl = HOUR_MS
  if stands then ttl = DAY_MS + math.ceil((math.max(holder_end, last_session, recover_until, now) - now) / 1000) end
  ttl = string.format('%.0f', ttl)
  if lenient then redis.call('PEXPIRE', state, ttl) end

  if stands or epoch > 0 then
    local values, changed = {stamp, token, epoch, now, skew, pace, pace_until, recover_until}, {}
    for i = 1, #STATE do
      if values[i] ~= found[i] then
        changed[#changed + 1] = STATE[i]
        changed[#changed + 1] = values[i]
      end
    end
    if #changed > 0 then redis.call('HSET', state, unpack(changed)) end
  end
  if holder ~= '' and (holder ~= old_holder or holder_end ~= old_end) then
    redis.call('ZADD', leases, holder_end, holder)
  end
  if joined then redis.call('ZADD', queue, joined_at, joined) end
  if prolonged then redis.call('ZADD', sessions, prolonged_until, prolonged) end
  if #new_entries > 0 then redis.call('HSET', entries, unpack(new_entries)) end

  if not lenient or found[1] == 0 then redis.call('PEXPIRE', state, ttl) end
  if stands then redis.call('PEXPIRE', entries, ttl) end
  if holder ~= '' then redis.call('PEXPIRE', leases, ttl) end
  if waiting > 0 then
    redis.call('PEXPIRE', queue, ttl)
    redis.call('PEXPIRE', sessions, ttl)
  end

  if not stands then
    redis.call('DEL', queue, sessions, leases, entries)
  else
    remove('ZREM', queue, leaving)
    if waiting == 0 then redis.call('DEL', sessions) else remove('ZREM', sessions, dead) end
    if old_holder ~= '' and old_holder ~= holder then redis.call('ZREM', leases, old_holder) end
    remove('HDEL', entries, gone)
  end
  -- A client without the right to a channel must not undo what was written: heartbeats cover for a lost message.
  for i = 1, #messages do redis.pcall('PUBLISH', unpack(messages[i])) end
end
