-- purge and promote: who is granted the lock next.
local BATCH = 100 -- heads looked at in one call, so that work stays bounded; the caller asks again
local again = false
local refreshed = {} -- sessions that this script prolongs

-- A session counts as alive until its end on the lock clock.
local function refresh(client, liveness_us, buffer_us, heartbeat_us)
  local ends = math.max(now + liveness_us + buffer_us, tonumber(redis.call('ZSCORE', sessions, client) or 0))
  refreshed[client] = ends
  last_session = math.max(last_session, ends)
  pace = math.max(pace, heartbeat_us)
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

-- Grants a free lock to the first live waiter and tells it. A `contender` {id, place, entry, ends} is the caller, who
-- is alive, may stand in the queue already, and learns of its grant from the reply.
local function promote(contender)
  local heads = {}
  if waiting > 0 then
    local dead = redis.call('ZRANGEBYSCORE', sessions, '-inf', now, 'LIMIT', 0, BATCH)
    for i = 1, #dead do
      if not refreshed[dead[i]] then gone.sessions[dead[i]] = true end
    end
    heads = redis.call('ZRANGE', queue, 0, BATCH - 1, 'WITHSCORES')
  end
  if holder ~= '' or now < recover_until then return end

  for i = 1, #heads, 2 do
    local id, place = heads[i], tonumber(heads[i + 1])
    if contender and place >= contender.place then
      heads = {} -- whoever stands behind does not matter
      break
    end
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
  again = #heads == 2 * BATCH and waiting > 0
  if contender and not again then
    if contender.queued then drop_waiter(contender.id) end
    grant(contender.id, contender.entry, contender.ends)
  end
end
