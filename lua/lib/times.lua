-- times: refuses what the replies to others could not tell: a fraction of a microsecond, or more than a lease may have.
-- NEEDS: liveness_us buffer_us heartbeat_us lease_us left_us
if liveness_us % 1 + buffer_us % 1 + heartbeat_us % 1 + lease_us % 1 + left_us % 1 ~= 0
  or liveness_us > LONGEST_US or buffer_us > LONGEST_US or heartbeat_us > LONGEST_US or lease_us > LONGEST_US
  or left_us > LONGEST_US then return redis.error_reply(BAD_TIMES) end
