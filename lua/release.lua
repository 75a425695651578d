-- release: the holder releases the lease; the next waiter is granted the lock in the same script.
-- KEYS: lock waiters
-- ARGV: id memory seat
--   seat: of the lease; empty if it is not known, and where the lease may be over: in a release that is repeated, or
--   that comes after the lease was declared lost
-- REPLY: released | expired | left | unknown
--   expired: the lease was over already · left: the id was only in the queue · unknown: neither
local id, memory, seat = unpack(ARGV)
-- include keys
-- include asker: id → client
-- include known: memory, seat → known_…, seat_…
-- include begin

local word, told, own_pace = 'unknown', {}, known_pace
-- include simple: known_…, seat_… → simple, spare_us
if simple and holder == id and spare_us >= 0 and spare_us <= 2 * SLACK_US and (not may or may('HDEL', lock, '')) then
  -- The common case: the lock becomes free. Without these lines the rest of the script would do the same.
  holder, holder_end, holder_token, holder_ticket, broken, cut, claim = '', 0, 0, 0, 0, 0, 0
  live_until = 0
  -- include write
  redis.pcall('HDEL', lock, id)
  word = 'released'
  -- include answer: the script ends
end

local left_us = 0
-- include restore: known_…, seat_…, own_pace, left_us → believed

local newest = seat_token > 0 and (seat_token >= token or holder == id) -- no later grant is known
-- include give_up: id → gave_up
word = gave_up or word
if believed and newest and now < recover_until then
  -- The recovery waited for this lease. What remains is the time for the waiters to return to their places.
  -- As after a later grant, also for those who have heard of a break: nobody who returns waits for this lease again.
  token = max(token, seat_token + 1) + 2
  stamp = max(stamp, token)
  -- include cut_short
  -- A state that is older than the lease may have its place in the queue.
  if word == 'unknown' or word == 'left' then word = 'released' end
end
-- include promote
-- include commit
-- include answer: the script ends
