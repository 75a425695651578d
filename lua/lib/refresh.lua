-- refresh: a session is heard of. It counts as alive until its end on the lock clock.
local function refresh(client, liveness_us, buffer_us, heartbeat_us)
  local ends = math.max(now + liveness_us + buffer_us, tonumber(redis.call('ZSCORE', sessions, client) or 0))
  prolonged, prolonged_until = client, ends
  last_session = math.max(last_session, ends)
  dead[client] = nil
  -- The pace is that of the slowest, until its session has ended.
  if heartbeat_us > pace or now >= pace_until then
    pace, pace_until = heartbeat_us, ends
  elseif heartbeat_us == pace then
    pace_until = math.max(pace_until, ends)
  end
end
