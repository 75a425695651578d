-- promote: who is granted the lock next, and purging the dead.
local BATCH = 100 -- heads looked at in one call, so that work stays bounded; the caller asks again

-- `entry` is what the grant needs to know of the waiter; it becomes the holder's.
local function grant(id, entry, ends)
  token = next_stamp()
  entry[TOKEN] = token
  put_entry(id, entry)
  holder, holder_end, held = id, ends, entry
end

-- A session counts as alive until its end on the lock clock.
local function session_end(client)
  if client == prolonged then return prolonged_until end
  return tonumber(redis.call('ZSCORE', sessions, client) or 0)
end

-- Grants a free lock to the first live waiter and tells it. With arguments it is called for one who is alive, may stand
-- in the queue already, and learns of its grant from the reply.
local function promote(id, place, entry, ends, queued)
  if waiting > 0 then
    local ended = redis.call('ZRANGEBYSCORE', sessions, '-inf', now, 'LIMIT', '0', BATCH)
    for i = 1, #ended do dead[ended[i]] = ended[i] ~= prolonged or nil end
  end
  if holder ~= '' or now < recover_until then return end

  -- The first in the queue is nearly always alive, so the first page is small.
  local page, from, at = {}, 0, 1
  local looked, mine = 0, waiting == 0
  while not mine do
    if at > #page then
      page = redis.call('ZRANGE', queue, from, math.min(from == 0 and 4 or BATCH, BATCH) - 1, 'WITHSCORES')
      from, at = from + #page / 2, 1
      if #page == 0 then break end
    end
    local head, ticket = page[at], tonumber(page[at + 1])
    at = at + 2
    mine = id and ticket >= place
    if not mine then
      looked = looked + 1
      if not leaving[head] then
        local its_entry = entry_of(head)
        local alive_until = session_end(client_of(head))
        drop_waiter(head)
        if its_entry and alive_until > now then
          -- The claim ends with the session: processes that died together cost one window, not one each.
          local its_end = math.min(now + its_entry[LEASE], now + its_entry[LIVENESS], alive_until)
          grant(head, its_entry, its_end)
          publish(its_entry, 'grant', head, token, its_end - now)
          return
        end
      end
    end
  end
  again = looked == BATCH and not mine and waiting > 0
  if id and not again then
    if queued then drop_waiter(id) end
    grant(id, entry, ends)
  end
end
