-- own_ids: refuses ids that are not of this client.
-- NEEDS: named client
for i = 1, #named do
  local one = named[i]
  if client == '' or string.find(one, client, 1, true) ~= 1 or string.find(one, '.', 1, true) ~= #client + 1
    or not string.find(one, '^%d+$', #client + 2) or #one > LONGEST_ID then return redis.error_reply(BAD_ID) end
end
