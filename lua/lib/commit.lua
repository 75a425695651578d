-- commit: makes the planned writes in the one order that is safe in a slot that is migrating, where a script that
-- empties a key and touches it again fails halfway: the hash, which never becomes empty, additions, TTLs, one removal,
-- messages.
-- PACKS: kind left_us memory seat id secret lock
-- NEEDS: lost found found_waiting recorded contender queued joins moves place sessions leaving fields messages
-- NEEDS: leases ended held claims last_end taken_id taken
-- SETS: live_until ttl_until recorded calm its_id
do
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

  -- A user may lack the right to a command. The commands after the first write are made sure of before it, because a
  -- place or lease that is written by half looks like a loss of data to everybody else.
  local may = redis.acl_check_cmd -- Redis 6 cannot be asked
  local denied = may and (adds and not may('ZADD', waiters, 0, '') and 'zadd'
    or #leaving > 0 and not may('ZREM', waiters, '') and 'zrem'
    or #gone > 0 and not may('HDEL', lock, '') and 'hdel'
    or new_ttl and not may('PEXPIRE', lock, 1) and 'pexpire')
  if denied then return redis.error_reply('NOPERM this user has no right to run the command ' .. denied) end

  if lost then call('DEL', lock, waiters) end
  if stands or epoch > 0 then
    -- include write
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
  for i = 1, rows and #rows or 0 do redis.pcall('XADD', past, 'NOMKSTREAM', 'MAXLEN', '~', PAST, '*', '', rows[i]) end
  if new_ttl and recorded == 1 then redis.pcall('PEXPIRE', past, PAST_MS) end

  -- A client without the right to a channel must not undo the writes: heartbeats make up for the lost message.
  for i = 1, #messages do
    local lease, kind, entry, its_left_us = unpack(messages[i])
    -- include texts: entry → secret, tag
    local message = struct.pack('<Bc0dBBdddddBBdddHHHc0Bc0Hc0', #kind, kind, its_left_us, MEMORY_SIZE, VERSION, epoch,
      stamp, token, longest, max(pace, recover_pace), SEAT_SIZE, VERSION, epoch, lease.ticket, lease.token, lease.slot,
      lease.most, #lease.id, lease.id, #secret, secret, #lock, lock)
    -- The client hears one channel for all its locks; in a cluster one for each slot, with the hash tag of a lock.
    local to = string.match(lock, '^[^{]*') .. (tag ~= '' and '{' .. tag .. '}:' or '') .. 'client:'
      .. string.sub(lease.id, 1, string.find(lease.id, '.', 1, true) - 1)
    -- Up to Redis 6 no channel belongs to a slot: all nodes get it.
    local sent = tag ~= '' and redis.pcall('SPUBLISH', to, message)
    if type(sent) ~= 'number' then redis.pcall('PUBLISH', to, message) end
  end
end
