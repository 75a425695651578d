-- times: refuses times that no client may have: a fraction of a microsecond, or more than a lease may last, of which
-- replies to others could not tell; less than nothing; and a lease or liveness that would be over before its reply.
-- NEEDS: liveness_us buffer_us heartbeat_us lease_us left_us shortest_us
if liveness_us % 1 + buffer_us % 1 + heartbeat_us % 1 + lease_us % 1 + left_us % 1 ~= 0 or shortest_us < SHORTEST_US
  or max(liveness_us, buffer_us, heartbeat_us, lease_us, left_us) > LONGEST_US
  or min(liveness_us, buffer_us, heartbeat_us, lease_us, left_us) < 0 then return redis.error_reply(BAD_TIMES) end
