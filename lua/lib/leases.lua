-- leases: reads the leases that this script may change or tell: those of the ids that the request names, found by their
-- tags. All are read if one may be over, if none of the others has the least `most`, or if a lease that comes back
-- after a loss of data is not sure to fit beside them. After a rollback they are dropped: holders that believe in
-- theirs bring them back.
-- NEEDS: named every dropped tags now epoch recover_until held limit limited first_end
-- NEEDS: seat_epoch seat_token seat_slot seat_most
-- SETS: leases mine conflicts limit limited claims first_end last_end
local leases = {} -- a list, also of those that have ended; and by id
for i = 1, held > 0 and named and #named or 0 do
  local of_id = named[i]
  -- include tag: of_id → tag
  local tag_at = string.find(tags, tag, 1, true)
  while tag_at do
    if tag_at % 4 == 1 then
      local slot = (tag_at - 1) / 4
      -- include take: slot
    end
    tag_at = tag_at + 4 <= #tags and string.find(tags, tag, tag_at + 1, true)
  end
end
local mine = named and leases[named[1]]
local conflicts = now < recover_until and seat_token > 0 and seat_epoch < epoch
  and not (mine and mine.token == seat_token)
  and (held + #leases >= min(limit, seat_most) or (string.byte(tags, 4 * seat_slot + 4) or 0) > 0)
if held == 0 or limited == 0 or first_end <= now or conflicts or every or dropped then
  for slot = 0, held > 0 and #tags / 4 - 1 or -1 do
    if string.sub(tags, 4 * slot + 1, 4 * slot + 4) ~= FREE then
      -- include take: slot
    end
  end
  -- What is known of them all is found anew by `sweep`.
  limit, limited, claims, first_end, last_end = HUGE, 0, 0, math.huge, 0
end
for i = 1, dropped and #leases or 0 do leases[i].ends, leases[i].how = min(leases[i].ends, now), 'lost' end
