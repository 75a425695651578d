-- purge and promote: who is granted the lock next.
local BATCH = 100 -- heads looked at in one call, so that work stays bounded; the caller asks again
local again = false
local refreshed = {} -- sessions that this script prolongs

-- A session counts as alive until its end on the lock clock.
local function refresh(client, liveness_us, buffer_us, heartbeat_us)
  local ends = math.max(now + liveness_us + buffer_us, tonumber(redis.call('ZSCORE', sessions, client) or 0))
  refreshed[client] = ends
  last_session = math.max(last_session, ends)
  -- The pace is that of the slowest, until its session has ended.
  if heartbeat_us > pace or now >= pace_until then
    pace, pace_until = heartbeat_us, ends
  elseif heartbeat_us == pace then
    pace_until = math.max(pace_until, ends)
  end
  gone.sessions[client] = nil
  add('ZADD', sessions, ends, client)
end

local function session_end(client)
  return refreshed[client] or tonumber(redis.call('ZSCORE', sessions, client) or 0)
end

-- `entry` is what the grant needs to know of the waiter; it becomes the holder's.
local function grant(id, entry, ends)
  token = next_stamp()
  entry[TOKEN] = token
  put_entry(id, entry)
  put_lease(id, entry, ends)
end

-- The queue from its front, as far as one call may look. The first is nearly always alive, so the first page is small.
local function heads()
  local page, from, at = {}, 0, 1
  return function()
    if at > #page then
      page = redis.call('ZRANGE', queue, from, math.min(from == 0 and 4 or BATCH, BATCH) - 1, 'WITHSCORES')
      from, at = from + #page / 2, 1
    end
    at = at + 2
    return page[at - 2], tonumber(page[at - 1])
  end
end

-- Grants a free lock to the first live waiter and tells it. A `contender` {id, place, entry, ends, queued} is the caller,
-- who is alive, may stand in the queue already, and learns of its grant from the reply.
local function promote(contender)
  if waiting > 0 then
    local dead = redis.call('ZRANGEBYSCORE', sessions, '-inf', now, 'LIMIT', 0, BATCH)
    for i = 1, #dead do
      if not refreshed[dead[i]] then gone.sessions[dead[i]] = true end
    end
  end
  if holder ~= '' or now < recover_until then return end

  local looked, mine = 0, waiting == 0
  if not mine then
    for id, place in heads() do
      mine = contender and place >= contender.place
      if mine then break end
      looked = looked + 1
      if not gone.queue[id] then
        local entry = entry_of(id)
        local alive_until = session_end(client_of(id))
        drop_waiter(id)
        if entry and alive_until > now then
          -- The claim ends with the session: processes that died together cost one window, not one each.
          local ends = math.min(now + entry[LEASE], now + entry[LIVENESS], alive_until)
          grant(id, entry, ends)
          publish(entry, 'grant', id, token, ends - now)
          return
        end
      end
    end
  end
  again = looked == BATCH and not mine and waiting > 0
  if contender and not again then
    if contender.queued then drop_waiter(contender.id) end
    grant(contender.id, contender.entry, contender.ends)
  end
end
