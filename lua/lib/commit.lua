-- commit: makes the planned writes in the one order that is safe in a slot that is migrating, where a script that empties
-- a key and touches it again fails halfway: the hash, which never becomes empty, additions, TTLs, one removal, messages.
-- A `lenient` script goes on when memory is short.
-- NEEDS: lenient lost found found_holder found_waiting recorded ended_how ended_entry contender queued joins place sessions leaving fields messages
-- SETS: live_until ttl_until holder_end holder_token holder_ticket broken cut claim recorded
do
  local DAY_US, HOUR_US = 86400000000, 3600000000
  local SLACK_US = HOUR_US / 12 -- the least time between two TTLs of a lock in use
  local stands = holder ~= '' or waiting > 0
  if waiting == 0 then live_until = 0 end
  if holder == '' then holder_end, holder_token, holder_ticket, broken, cut, claim = 0, 0, 0, 0, 0, 0 end
  -- If TIME was set back, stamps ahead of it must be remembered until it has caught up.
  local rest_us = max(recover_until - now, stamp - raw, 0)
  if stands then rest_us = max(rest_us, max(holder_end, live_until) - now) end
  -- An idle lock that was granted only once is forgotten after an hour, because a million names may be used like that;
  -- any other after a day, because tokens must rise over a clock that jumps forwards and back.
  local needed_until = raw + ((stands or grants > 1) and DAY_US or HOUR_US) + rest_us
  local new_ttl = not found or lost or ttl_until < needed_until or ttl_until > needed_until + 2 * SLACK_US
  if new_ttl then ttl_until = needed_until + SLACK_US end

  -- A session is removed with its last waiter, an entry with the lease or the place, unless its id has the other now.
  local gone = {}
  if found_holder ~= '' and found_holder ~= holder and not (joins and found_holder == contender) then
    gone[1] = found_holder
  end
  for i = 1, #leaving do
    local leaver = leaving[i]
    if leaver ~= holder then gone[#gone + 1] = leaver end
    local its_client = string.match(leaver, CLIENT_OF)
    local session = sessions[its_client]
    if not session then
      session = {struct.unpack(SESSION, call('HGET', lock, its_client .. '.'))}
      sessions[its_client] = session
    end
    session[2] = session[2] - 1
  end
  for its_client, session in pairs(sessions) do
    if session[2] == 0 then
      gone[#gone + 1] = its_client .. '.'
    else
      fields[#fields + 1], fields[#fields + 2] = its_client .. '.', struct.pack(SESSION, session[1], session[2])
    end
  end

  -- The history may outlive the state.
  local past = (recorded == 1 or not found) and string.sub(lock, 1, -5) .. HISTORY
  if not found then recorded = redis.pcall('EXISTS', past) == 1 and 1 or 0 end
  -- include ended

  if lost then call('DEL', lock, waiters) end
  if stands or epoch > 0 then
    local numbers = struct.pack(NUMBERS, VERSION, broken, cut, claim, recorded, stamp, token, epoch, now, skew, pace, pace_until,
      recover_from, recover_until, recover_pace, grants, (stands or now < recover_until) and longest or 0, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket) .. holder
    local written = redis.pcall('HSET', lock, '', numbers, unpack(fields))
    if type(written) == 'table' then
      -- Most likely memory is short. Once a script has written anything, the server accepts its other writes.
      if not lenient then return written end
      call('PEXPIRE', lock, DAY_US / 1000)
      call('HSET', lock, '', numbers, unpack(fields))
      new_ttl = true
    end
  end
  if #gone > 0 then call('HDEL', lock, unpack(gone)) end
  if joins and not queued and holder ~= contender then call('ZADD', waiters, place, contender) end
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
    local its_terms, kind, its_id, its_token, its_ticket, left = unpack(messages[i])
    local to = its_terms[CHANNEL]
    -- Redis turns whole numbers below 2^53 into exact text, in commands and replies, but Lua does not. Only the numbers
    -- are formatted: %s ends a text at its first NUL, and a name may have one.
    local message = kind .. ' ' .. its_id .. string.format(' %.0f %.0f %.0f ', its_token, its_ticket, left)
      .. its_terms[SECRET] .. ' ' .. lock
    -- A channel with a hash tag belongs to the slot of the lock. Up to Redis 6 there are none: all nodes get the message.
    local sent = string.find(to, '{', 1, true) and redis.pcall('SPUBLISH', to, message)
    if type(sent) ~= 'number' then redis.pcall('PUBLISH', to, message) end
  end
end
