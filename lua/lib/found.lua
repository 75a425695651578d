-- found: the state as it is stored, and whether it is that of a calm lock.
-- NEEDS: lock
-- SETS: found layout calm
local found = call('HGET', lock, '')
local layout, calm = VERSION, 0
if found then layout, calm = string.byte(found, 1, 2) end
if layout ~= VERSION then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in layout %d, this client knows layout %d',
    layout or 0, VERSION))
end
-- Of what is shorter than the numbers, or has a mark that only a later version knows, no number can be read.
if found and (not calm or calm > 1 or #found < (calm == 1 and 76 or 184)) then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in a form of layout %d that this client does not know',
    VERSION))
end
