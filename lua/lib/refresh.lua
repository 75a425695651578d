-- refresh: the session of `client` is heard of. It counts as alive until its end on the lock clock.
prolonged = client
prolonged_until = math.max(now + liveness_us + buffer_us, tonumber(redis.call('ZSCORE', sessions, client) or 0))
last_session = math.max(last_session, prolonged_until)
-- The pace is that of the slowest, until its session has ended.
if heartbeat_us > pace or now >= pace_until then
  pace, pace_until = heartbeat_us, prolonged_until
elseif heartbeat_us == pace then
  pace_until = math.max(pace_until, prolonged_until)
end
