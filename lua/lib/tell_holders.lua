-- tell_holders: the leases of the first slots from `tell_from` on, at most `tell_most`, for people: an array of {id,
-- slot, token, most, label, owner, held_us, claim, broken, left_us}. A token is the time of its grant.
-- NEEDS: tags leases taken_id taken raw now tell_from tell_most
-- SETS: holders by_slot
local holders, by_slot = {}, {}
for i = 1, #leases do
  if leases[i].ends > now then by_slot[leases[i].slot] = leases[i] end
end
for slot = tell_from, #tags / 4 - 1 do
  if #holders == tell_most then break end
  if string.sub(tags, 4 * slot + 1, 4 * slot + 4) ~= FREE then
    local told_of = by_slot[slot]
    if not told_of then
      -- include lease: slot → lease
      told_of = lease
    end
    if told_of.ends > now then
      local entry = told_of.id == taken_id and taken or call('HGET', lock, told_of.id)
      -- include texts: entry → label, owner
      holders[#holders + 1] = {told_of.id, slot, told_of.token, told_of.most, label, owner, max(raw - told_of.token, 0),
        told_of.claim, told_of.broken, told_of.ends - now}
    end
  end
end
