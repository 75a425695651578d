-- tag: the tag of a slot: of a claim the first two bytes of its id, so that any request of its client finds it, and of
-- another lease the last four. The last byte is a dot or a digit, so no tag is FREE;
-- an id has one dot, so only tags of claims have two in a row.
-- NEEDS: of_id is_claim
-- SETS: tag
local tag = is_claim and string.sub(of_id, 1, 2) .. CLAIM or string.sub(of_id, -4)
if #tag < 4 then tag = '.' .. tag end
