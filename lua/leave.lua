-- leave: waiters of a client give up their places; a lease that was granted to one of them meanwhile is released.
-- KEYS: lock
-- ARGV: memory ids...
--   memory: what the client was told of the lock
-- REPLY: left
local memory = ARGV[1]
local id, seat = ARGV[2], ''
-- include keys
-- include asker: id → client
-- include known: memory → known_…
local own_pace, left_us = known_pace, 0
-- include begin
-- include plan
-- include lost
-- include restore: known_…, own_pace, left_us
named = {unpack(ARGV, 2)}
-- include own_ids: named, client
-- include leases: named

local word, told = 'left', nil
for i = 1, #named do
  id = named[i]
  -- include give_up: id
end
-- include promote
-- include commit
-- include answer: the script ends
