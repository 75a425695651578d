-- state: reads the numbers of the lock, and whether a key of it was lost.
-- NEEDS: lock waiters joining
-- SETS: found NUMBERS STATE version calm recorded accounted stamp token epoch seen skew pace pace_until silent_from
-- SETS: silent_until recover_from recover_until recover_pace grants longest longest_next generation waiting live_until
-- SETS: ttl_until first_end last_end held limit limited tags zeroth_size zeroth_at beyond found_waiting lost
local found = call('HGET', lock, '')
if found and string.byte(found) ~= VERSION then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in layout %d, this client knows layout %d',
    string.byte(found) or 0, VERSION))
end
-- Of what is shorter than the numbers, or has a mark that only a later version knows, no number can be read.
if found and (#found < 182 or string.byte(found, 2) > 0) then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in a form of layout %d that this client does not know',
    VERSION))
end
-- One field, because a number as text costs as much as a command.
-- The lease of slot 0, which is behind the tags, is unpacked only where it is wanted.
local NUMBERS, STATE = '<BBBBdddddddddddddddddddddHHHHc0H', '<BBBBdddddddddddddddddddddHHHHc0Hc0'
local version, calm, recorded, accounted, stamp, token, epoch, seen, skew, pace, pace_until, silent_from, silent_until,
  recover_from, recover_until, recover_pace, grants, longest, longest_next, generation, waiting, live_until, ttl_until,
  first_end, last_end, held, limit, limited, tags, zeroth_size, zeroth_at =
  struct.unpack(NUMBERS, found or string.rep('\0', 182))
local beyond = found and string.sub(found, zeroth_at + zeroth_size) or '' -- what a later version of the scripts has added
local found_waiting = waiting
-- The keys of a lock live and die together: if they disagree, data was lost. The length is also read before the first
-- waiter joins, so that a key of another type is found before the first write.
local lost = (waiting > 0 or not found or joining and (held > 0 or recover_until > 0))
  and call('ZCARD', waiters) ~= waiting
