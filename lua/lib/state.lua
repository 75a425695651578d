-- state: reads the numbers and the holder of the lock, and whether a key of it was lost.
-- NEEDS: lock waiters joining
-- SETS: found NUMBERS version broken cut claim recorded stamp token epoch seen skew pace pace_until silent_from
-- SETS: silent_until recover_from recover_until recover_pace grants longest longest_next generation waiting live_until
-- SETS: ttl_until holder_end holder_token holder_ticket holder beyond_at beyond found_waiting keep_us lost
local found = call('HGET', lock, '')
if found and string.byte(found) ~= VERSION then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in layout %d, this client knows layout %d',
    string.byte(found), VERSION))
end
-- One field, because a number as text costs as much as a command.
local NUMBERS = '<BBBBBddddddddddddddddddddddHc0'
local version, broken, cut, claim, recorded, stamp, token, epoch, seen, skew, pace, pace_until, silent_from,
  silent_until, recover_from, recover_until, recover_pace, grants, longest, longest_next, generation, waiting,
  live_until, ttl_until, holder_end, holder_token, holder_ticket, holder, beyond_at =
  struct.unpack(NUMBERS, found or string.rep('\0', 183))
local beyond = found and string.sub(found, beyond_at) or '' -- what a later version of the scripts has added
local found_waiting = waiting
local keep_us = min(longest, HOUR_US * 5 / 6) -- how long a client that has nothing here any more keeps its memory
-- The keys of a lock live and die together: if they disagree, data was lost. The length is also read before the first
-- waiter joins, so that a key of another type is found before the first write.
local lost = (waiting > 0 or not found or joining and (holder ~= '' or recover_until > 0))
  and call('ZCARD', waiters) ~= waiting
