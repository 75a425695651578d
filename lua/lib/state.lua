-- state: reads the numbers and the holder of the lock.
-- NEEDS: lock waiters found joining
-- SETS: VERSION NUMBERS broken cut claim recorded stamp token epoch seen skew pace pace_until recover_from recover_until recover_pace grants longest
-- SETS: waiting live_until ttl_until holder_end holder_token holder_ticket holder found_waiting lost
local VERSION, NUMBERS = 1, '<BBBBBdddddddddddddddddd' -- one field, because a number as text costs as much as a command
local broken, cut, claim, recorded, stamp, token, epoch, seen, skew, pace, pace_until, recover_from, recover_until, recover_pace, grants, longest, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket =
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
local found_waiting = 0
local holder = '' -- the id of the holder, or empty
if found then
  local version = string.byte(found)
  if version ~= VERSION then
    return redis.error_reply('OTHERLAYOUT the lock is kept in layout ' .. version .. ', this client knows layout ' .. VERSION)
  end
  local size
  version, broken, cut, claim, recorded, stamp, token, epoch, seen, skew, pace, pace_until, recover_from, recover_until, recover_pace, grants, longest, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket, size =
    struct.unpack(NUMBERS, found)
  holder, found_waiting = string.sub(found, size), waiting
end
-- The keys of a lock live and die together: if they disagree, data was lost. The length is also read before the first
-- waiter joins, so that a key of another type is found before the first write.
local lost = false
if waiting > 0 or not found or joining and (holder ~= '' or recover_until > 0) then
  lost = call('ZCARD', waiters) ~= waiting
end
