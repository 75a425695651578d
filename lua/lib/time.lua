-- time: the only place that reads the server's clock. Tests replace this file by a clock of their own.
-- SETS: raw
-- TIME is read once per script: up to Redis 7.0 it moves on while a script runs.
local raw
do
  local time = call('TIME')
  raw = time[1] * 1000000 + time[2]
end
