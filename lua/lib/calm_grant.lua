-- calm_grant: grants a calm lock to a client that knows of no loss. Without these lines the rest of the script would do
-- the same, but for the form in which the lock is kept.
-- NEEDS: calm found raw memory seat as_claim lease_us liveness_us joining id terms most own_pace
-- SETS: GRANTED stamp grants longest longest_next
local GRANTED = '<Bc0BddddddBBdddddHBHc0BBdddHHdI'
if calm == 1 and seat == '' and (as_claim == 0 or lease_us <= liveness_us) then
  -- include in_touch
  local now = raw + skew
  local spare_us = ttl_until - raw - DAY_US - lease_us -- for how much longer than this lease needs it the keys live
  if in_touch and raw > stamp and now >= seen and spare_us >= 0 and spare_us <= 2 * SLACK_US
    and (taken_field == '' or not call('HGET', lock, taken_field)) then
    local field, beyond, numbers = MARK .. id, at > #found and '' or string.sub(found, at), nil
    stamp = joining and raw + 1 or raw
    grants, longest, longest_next = grants + 1, longest_next > lease_us and longest_next or lease_us, lease_us
    -- include short: field → numbers
    local written = redis.pcall('HSET', lock, '', numbers, field, terms)
    if type(written) == 'table' then return written end
    -- As in lib/answer.lua, in one piece. The flag 2: the lease may be given back by an HDEL.
    return struct.pack(GRANTED, 7, 'granted', 2, 0, 0, 1, lease_us, 0, min(longest, KEEP_US), MEMORY_SIZE, VERSION, epoch,
      stamp, stamp, longest, own_pace, 1, 0, #id, id, SEAT_SIZE, VERSION, epoch, raw, stamp, 0, most, lease_us, 0)
  end
end
