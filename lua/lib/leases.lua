-- leases: reads the leases that this script may change or tell: those of the ids that the request names, and claims of
-- the client that asks, found by their tags; and all if one may be over, if none of the others has the least `most`, or
-- in a recovery. After a loss of data they are dropped: holders that believe in theirs bring them back.
-- NEEDS: named every dropped tags now recover_until held limit limited first_end
-- SETS: names leases limit limited first_end last_end
local leases = {} -- a list, also of those that have ended; and by id
local names = held > 0 and named and #named or 0
for i = names > 0 and string.find(tags, CLAIM, 1, true) and 0 or 1, names do
  local of_id, is_claim = named[i] or named[1], i == 0
  -- include tag: of_id, is_claim → tag
  local tag_at = string.find(tags, tag, 1, true)
  while tag_at do
    if tag_at % 4 == 1 then
      local slot = (tag_at - 1) / 4
      -- include take: slot
    end
    tag_at = tag_at + 4 <= #tags and string.find(tags, tag, tag_at + 1, true)
  end
end
if held == 0 or limited == 0 or first_end <= now or now < recover_until or every or dropped then
  for slot = 0, held > 0 and #tags / 4 - 1 or -1 do
    if string.sub(tags, 4 * slot + 1, 4 * slot + 4) ~= FREE then
      -- include take: slot
    end
  end
  -- What is known of them all is found anew by `sweep`.
  limit, limited, first_end, last_end = HUGE, 0, math.huge, 0
end
for i = 1, dropped and #leases or 0 do leases[i].ends, leases[i].how = min(leases[i].ends, now), 'lost' end
