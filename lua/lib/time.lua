-- time: the only place that reads the server's clock. Tests put their own clock in the place of this file.
-- SETS: raw
-- It is read once per script: up to Redis 7.0 TIME moves on while a script runs.
local raw
do
  local time = call('TIME')
  raw = time[1] * 1000000 + time[2]
end
