-- own_ids: refuses ids that are not of this client.
-- NEEDS: named client
for i = 1, #named do
  local id = named[i]
  if client == '' or string.find(id, client, 1, true) ~= 1 or string.find(id, '.', 1, true) ~= #client + 1
    or not string.find(id, '^%d+$', #client + 2) or #id > LONGEST_ID then return redis.error_reply(BAD_ID) end
end
