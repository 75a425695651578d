-- sweep: the leases that were read count again, but for those that are over, whose slots become free.
-- NEEDS: now leases held tags
-- SETS: ended tags
for i = 1, #leases do
  local lease = leases[i]
  if lease.ends > now then
    -- include count: lease
  else
    ended[#ended + 1] = lease
  end
end
if held == 0 then
  tags = ''
elseif #ended > 0 then
  table.sort(ended, function(one, other) return one.slot < other.slot end)
  local pieces, from = {}, 1
  for i = 1, #ended do
    if not ended[i].replaced then
      pieces[#pieces + 1] = string.sub(tags, from, 4 * ended[i].slot) .. FREE
      from = 4 * ended[i].slot + 5
    end
  end
  tags = string.match(table.concat(pieces) .. string.sub(tags, from), '^.*%Z')
end
