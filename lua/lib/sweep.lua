-- sweep: the leases that were read count again, but for those that are over. Their slots become holes, which keep their
-- tags until they are granted again or cleared (lib/clear.lua): of many slots a tag is written once.
-- NEEDS: now leases held tags
-- SETS: ended holes tags
for i = 1, #leases do
  local lease = leases[i]
  if lease.ends > now then
    -- include count: lease
  else
    ended[#ended + 1] = lease
  end
end
local holes = {}
if held == 0 then
  tags = ''
elseif #ended > 0 then
  table.sort(ended, function(one, other) return one.slot < other.slot end)
  for i = 1, #ended do
    if not ended[i].replaced then holes[#holes + 1] = ended[i].slot end
  end
end
