-- put: the tag of a lease takes the place of that of its slot.
-- NEEDS: lease tags
-- SETS: tags
do
  local of_id, is_claim, behind = lease.id, lease.claim == 1, 4 * lease.slot + 5
  -- include tag: of_id, is_claim → tag
  tags = (behind > #tags + 4 and tags or string.sub(tags, 1, behind - 5)) .. tag .. string.sub(tags, behind)
  lease.changed = true
end
