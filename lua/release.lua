-- release: the holder releases its lease; the next waiters are granted the lock in the same script.
-- KEYS: lock
-- ARGV: id memory seat
--   seat: of the lease; empty if it is not known, and where the lease may be over: in a release that is repeated, or
--   that comes after the lease was declared lost
-- REPLY: released | expired | left | unknown
--   expired: the lease was over already · left: the id was only in the queue · unknown: neither
local id, memory, seat = unpack(ARGV)
-- include keys
-- include asker: id → client
-- include found
-- include calm_release: the script ends, if it frees a calm lock
-- include known: memory, seat → known_…, seat_…
local own_pace, left_us = known_pace, 0
-- include time
-- include state
-- include clock
-- include plan
-- include lost

local word, told = 'unknown', nil
-- include restore: known_…, seat_…, own_pace, left_us → believed
named = {id}
-- include leases: named
-- A seat says that its lease lasted until now. After a loss of data it comes back first, and is then released.
left_us = 1
-- include bring_back: id, seat_…, seat_most, left_us → brought
-- include give_up: id → gave_up
word = gave_up or word
-- include promote
-- include commit
-- include answer: the script ends
