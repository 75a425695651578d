-- heartbeat: keeps a session alive, for all of its waiters, and promotes the queue where it can.
-- It creates no entries: the client re-enters waiters that the server does not know.
-- KEYS: lock
-- ARGV: client memory times ids...
--   memory: what the client was told of the lock · times: the first three numbers of terms (lib/terms.lua)
--   ids: the session's first waiters, in the order of their tickets
-- REPLY: alive | unknown
--   alive: with the position of the first of them that waits
local client, memory, times = unpack(ARGV)
local liveness_us, buffer_us, heartbeat_us = struct.unpack('<ddd', times)
local seat = ''
-- include keys
-- include known: memory → known_…
local own_pace, lease_us, left_us, shortest_us = heartbeat_us, 0, 0, liveness_us
-- include times
-- include begin
-- include plan
-- include lost
-- include restore: known_…, own_pace, left_us
named = {unpack(ARGV, 4)}
-- include own_ids: named, client
-- include leases: named

local first, rank, missing
for i = 1, #named do
  local id = named[i]
  local lease = leases[id]
  if not lease or lease.ends <= now then
    local its_rank = waiting > 0 and call('ZRANK', waiters, id)
    if its_rank then first, rank = first or id, rank or its_rank else missing = true end
  end
end
if first then
  local own_session = call('HGET', lock, client .. '.')
  -- include refresh: client, own_session, liveness_us, buffer_us, heartbeat_us
end
-- include promote
-- include commit

local word, told = missing and 'unknown' or 'alive', nil
-- Who left the queue stood before it.
if first and not missing and not leaving[first] then position = rank - #leaving + 1 end
-- include answer: the script ends
