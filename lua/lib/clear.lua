-- clear: the slots that are left of the holes are free.
-- NEEDS: holes tags
-- SETS: tags
if #holes > 0 then
  local pieces, from = {}, 1
  for i = 1, #holes do
    pieces[i] = string.sub(tags, from, 4 * holes[i]) .. FREE
    from = 4 * holes[i] + 5
  end
  tags = string.match(table.concat(pieces) .. string.sub(tags, from), '^.*%Z')
end
