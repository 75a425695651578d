-- state: reads the numbers of the lock, and whether a key of it was lost.
-- NEEDS: lock found calm joining
-- SETS: NUMBERS STATE version recorded stamp token epoch seen skew pace pace_next pace_turn silent_from silent_until
-- SETS: recover_from wait_places wait_leases sole grants longest longest_next generation waiting live_until ttl_until
-- SETS: first_end last_end held claims limit limited tags zeroth_size zeroth_at zeroth_in beyond found_waiting lost
-- SETS: waiters calm taken_field taken_id taken
local waiters = string.sub(lock, 1, -5) .. 'waiters'
-- One field, because a number as text costs as much as a command.
-- The lease of slot 0, which is behind the tags, is unpacked only where it is wanted.
local NUMBERS, STATE = '<BBBdddddddddddddddddddddddHHHHHc0H', '<BBBdddddddddddddddddddddddHHHHHc0Hc0'
local version, recorded, stamp, token, epoch, seen, skew, pace, pace_next, pace_turn, silent_from, silent_until, recover_from,
  wait_places, wait_leases, sole, grants, longest, longest_next, generation, waiting, live_until, ttl_until, first_end,
  last_end, held, claims, limit, limited = VERSION, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  HUGE, 0
local tags, zeroth_size, zeroth_at, zeroth_in, taken_field, taken_id, taken = '', 0, 1, found or '', '', '', false
if calm == 1 then
  -- All numbers that are not kept are 0, or as after a grant.
  version, calm, epoch, stamp, seen, skew, grants, longest, longest_next, recover_from, ttl_until, taken_field, zeroth_at =
    struct.unpack(CALM, found)
  token, generation = stamp, stamp
  taken_id, taken = string.sub(taken_field, 2), taken_field ~= '' and call('HGET', lock, taken_field)
elseif found then
  version, calm, recorded, stamp, token, epoch, seen, skew, pace, pace_next, pace_turn, silent_from, silent_until,
    recover_from, wait_places, wait_leases, sole, grants, longest, longest_next, generation, waiting, live_until,
    ttl_until, first_end, last_end, held, claims, limit, limited, tags, zeroth_size, zeroth_at = struct.unpack(NUMBERS, found)
end
local beyond = found and string.sub(found, zeroth_at + zeroth_size) or '' -- what a later version of the scripts has added
if taken then
  -- The lease of a calm lock becomes one like others. It has lasted since the last moment on the lock clock.
  local _, _, _, its_lease, _, its_most = struct.unpack(TERMS, taken)
  local of_id = taken_id
  -- include tag: of_id → tag
  held, limit, limited, tags, first_end, last_end = 1, min(its_most, HUGE), 1, tag, seen + its_lease, seen + its_lease
  zeroth_in = struct.pack(LEASE, limit, 0, 0, first_end, token, seen - skew, #taken_id, taken_id)
  zeroth_size, zeroth_at = #zeroth_in, 1
end
local found_waiting = waiting
-- The keys of a lock live and die together: if they disagree, data was lost. The length is also read before the first
-- waiter joins, so that a key of another type is found before the first write.
local lost = (waiting > 0 or not found or joining and (held > 0 or recover_from > 0))
  and call('ZCARD', waiters) ~= waiting
