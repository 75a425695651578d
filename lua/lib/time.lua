-- The only place that reads the server's clock. Tests put their own clock in the place of this file.
-- It is read once per script: up to Redis 7.0 TIME moves on while a script runs.
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
