-- release: the holder gives the lease back; the next waiter is granted the lock in the same step.
-- KEYS: queue sessions leases entries state
-- ARGV: id
-- REPLY: released | expired | left | unknown
--   expired: the lease was over already · left: it only stood in the queue · unknown: neither
local id = unpack(ARGV)
-- include begin
local client, word, told = client_of(id), 'unknown', {}
-- include give_up
-- include promote
local lenient = true
-- include commit
-- include answer
