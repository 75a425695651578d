-- release: the holder releases the lease; the next waiter is granted the lock in the same script.
-- KEYS: lock waiters
-- ARGV: id seat memory
--   seat: of the lease; empty if it is not known, and where the lease may be over: in a release that is repeated, or that
--   comes after the lease was declared lost
-- REPLY: released | expired | left | unknown
--   expired: the lease was over already · left: the id was only in the queue · unknown: neither
local id, seat, memory = unpack(ARGV)
-- include keys
local client = string.match(id, CLIENT_OF)
if not client then return redis.error_reply(BAD_ID) end
-- include known: memory, seat → known_…, seat_…
local found, own_entry = unpack(call('HMGET', lock, '', id))
local joining = false
-- include begin
local own_pace, left_us, last_token = known_pace, known_longest, known_token
-- include restore: known_…, seat_…, own_pace, left_us, last_token → believed

local word, told = 'unknown', {}
local newest = seat_token > 0 and (seat_token >= token or holder == id) -- no later grant is known
-- include give_up: id → gave_up
if gave_up then word = gave_up end
if believed and newest and now < recover_until then
  -- The recovery waited for this lease. What remains is the time for the waiters to return to their places.
  token = max(token, seat_token + 1)
  stamp = max(stamp, token)
  -- include cut_short
  -- A state that is older than the lease may have its place in the queue.
  if word == 'unknown' or word == 'left' then word = 'released' end
end
-- include promote
local lenient = true
-- include commit
-- include answer: the script ends
