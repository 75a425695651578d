-- decide: what is left of the lock, and what goes: entries with their leases and places, sessions with their last
-- waiter; how long the keys live; and whether the lock is calm.
-- NEEDS: found found_waiting recorded contender queued joins moves sessions leaving fields
-- NEEDS: leases ended held claims last_end taken_id taken
-- SETS: live_until ttl_until recorded calm its_id stands rest_us needed_until new_ttl adds past gone rows
local stands = held > 0 or waiting > 0
-- The clock goes by heartbeats until also the last claim is confirmed: its waiter was one until now.
if waiting == 0 and claims == 0 then live_until = 0 end
-- If TIME was set back, stamps ahead of it must be remembered until it has caught up.
local rest_us = max(recover_until - now, last_end - now, live_until - now, stamp - raw, 0)
-- An idle lock that was granted only once is forgotten after an hour, because a million names may be used like that;
-- any other after a day, because tokens must rise over a clock that jumps forwards and back.
local needed_until = raw + ((stands or grants > 1) and DAY_US or HOUR_US) + rest_us
local new_ttl = lost or ttl_until < needed_until or ttl_until > needed_until + 2 * SLACK_US
if new_ttl then ttl_until = needed_until + SLACK_US end
local adds = contender and joins and (moves or not queued)
-- A lock is calm if the next grant and its end are all that can happen to it.
calm = not stands and grants > 1 and stamp == token and recorded == 0 and live_until == 0
  and now >= recover_until and 1 or 0

-- The history may outlive the state.
local past = (recorded == 1 or not found) and string.sub(lock, 1, -5) .. HISTORY
if not found then recorded = redis.pcall('EXISTS', past) == 1 and 1 or 0 end

-- An entry is removed with its lease or place, unless its id has the other now; a session with its last waiter.
local gone, rows = {}, recorded == 1 and {}
for i = 1, #ended do
  local lease = ended[i]
  local now_held = leases[lease.id]
  if now_held.ends <= now and (not joins or lease.id ~= contender) then gone[#gone + 1] = lease.id end
  local entry = recorded == 1 and call('HGET', lock, lease.id)
  if entry then
    -- include texts: entry → label, owner
    rows[#rows + 1] = cmsgpack.pack({lease.id, lease.token, label, owner, lease.token - lease.ticket,
      max(raw - (now - lease.ends) - lease.token, 0), lease.how or 'expired', lease.slot})
  end
end
for i = 1, #leaving do
  its_id = leaving[i]
  local now_held = leases[its_id]
  if not now_held or now_held.ends <= now then gone[#gone + 1] = its_id end
  -- include session: its_id → session
  session[2] = session[2] - 1
end
-- What a calm lock has of its holder gets its usual name. No script writes another entry than that of its asker.
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
    fields[#fields + 1], fields[#fields + 2] = its_client .. '.', struct.pack(SESSION, unpack(planned))
  end
end
