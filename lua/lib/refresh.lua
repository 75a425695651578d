-- refresh: records a sign of life from the session of `client`, which counts as alive until its end on the lock clock.
-- NEEDS: client own_session liveness_us buffer_us heartbeat_us now
-- SETS: sessions live_until pace pace_until
do
  local until_now, count = struct.unpack(SESSION, own_session or string.rep('\0', 24))
  local session_end = max(until_now, now + liveness_us + buffer_us)
  sessions[client] = {session_end, count, heartbeat_us}
  live_until = max(live_until, session_end)
  -- The pace is that of the slowest client until its session has ended.
  if heartbeat_us > pace or now >= pace_until then pace, pace_until = heartbeat_us, 0 end
  if heartbeat_us == pace then pace_until = max(pace_until, session_end) end
end
