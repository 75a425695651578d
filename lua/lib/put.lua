-- put: the tag of a lease takes the place of that of its slot.
-- NEEDS: lease tags
-- SETS: tags
do
  local of_id, behind = lease.id, 4 * lease.slot + 5
  -- include tag: of_id → tag
  tags = (behind > #tags + 4 and tags or string.sub(tags, 1, behind - 5)) .. tag .. string.sub(tags, behind)
  lease.changed = true
end
