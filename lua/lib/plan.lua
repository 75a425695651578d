-- Scripts read first and only plan their writes; commit() then makes them in the one order that is safe in a slot
-- that is migrating (a script that empties a key and touches it again is cut in the middle): add, set TTLs, remove
-- with one command per key, publish.
local DAY_MS, HOUR_MS = 86400000, 3600000
local adds, messages = {}, {}
local gone = {queue = {}, sessions = {}, leases = {}, entries = {}}

local function add(...) adds[#adds + 1] = {...} end

local function put_entry(id, entry)
  gone.entries[id] = nil
  add('HSET', entries, id, cmsgpack.pack(entry))
end

local function put_lease(id, entry, ends)
  gone.leases[id] = nil
  holder, holder_end, held = id, ends, entry
  add('ZADD', leases, ends, id)
end

-- Broken: an operator wants it to end. Cut: granted before data was lost, and not confirmed since.
local function mark(broken, cut)
  held[BROKEN], held[CUT] = broken or false, cut or false
  put_entry(holder, held)
end

local function drop_lease(id)
  gone.leases[id], gone.entries[id] = true, true
  holder, holder_end, held = '', 0, nil
end

local function drop_waiter(id)
  gone.queue[id], gone.entries[id] = true, true
  waiting = waiting - 1
end

-- From here on `holder` is who has the lock now; `lapsed` is whose lease was found to be over.
local lapsed = holder
if holder_end <= now and holder ~= '' then drop_lease(holder) else lapsed = '' end

-- Redis turns whole numbers below 2^53 into exact text by itself, in commands and in replies; Lua alone would not. Only
-- the numbers are formatted: %s ends a text at its first NUL, and a name may have one.
local function publish(entry, kind, id, of_token, left_us)
  local message = kind .. ' ' .. id .. string.format(' %.0f %.0f ', of_token, left_us) .. queue
  messages[#messages + 1] = {entry[CHANNEL], message}
end

local function remove(command, key, members)
  local list = {}
  for member in pairs(members) do list[#list + 1] = member end
  if #list > 0 then redis.call(command, key, unpack(list)) end
end

-- `lenient` scripts begin with a write that memory limits do not refuse, which lets the rest of them through.
local function commit(lenient)
  local stands = holder ~= '' or waiting > 0
  local ttl = HOUR_MS
  if stands then ttl = DAY_MS + math.ceil((math.max(holder_end, last_session, recover_until, now) - now) / 1000) end
  if lenient then redis.call('PEXPIRE', state, ttl) end

  if stands or epoch > 0 then
    seen = now
    local values, changed = {stamp, token, epoch, seen, skew, pace, pace_until, recover_until}, {}
    for i = 1, #STATE do
      if values[i] ~= found[i] then
        changed[#changed + 1] = STATE[i]
        changed[#changed + 1] = values[i]
      end
    end
    if #changed > 0 then redis.call('HSET', state, unpack(changed)) end
  end
  for i = 1, #adds do redis.call(unpack(adds[i])) end

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
    remove('ZREM', queue, gone.queue)
    if waiting == 0 then redis.call('DEL', sessions) else remove('ZREM', sessions, gone.sessions) end
    remove('ZREM', leases, gone.leases)
    remove('HDEL', entries, gone.entries)
  end
  -- A client without the right to a channel must not undo what was written: heartbeats cover for a lost message.
  for i = 1, #messages do
    local channel, message = unpack(messages[i])
    -- A channel with a hash tag belongs to the slot of the lock. Up to Redis 6 there are none, and all nodes are told.
    local told = string.find(channel, '{', 1, true) and redis.pcall('SPUBLISH', channel, message)
    if type(told) ~= 'number' then redis.pcall('PUBLISH', channel, message) end
  end
end
