-- found: the state as it is stored, and whether it is that of a calm lock.
-- NEEDS: lock
-- SETS: found layout calm CALM_SIZE STATE_SIZE
local found = call('HGET', lock, '')
local layout, calm = VERSION, 0
if found then layout, calm = string.byte(found, 1, 2) end
if layout ~= VERSION then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in layout %d, this client knows layout %d',
    layout or 0, VERSION))
end
-- Of what is shorter than the numbers, or has a mark that only a later version knows, no number can be read. The sizes
-- are those of the forms in lib/keys.lua and lib/state.lua, with empty texts.
local CALM_SIZE, STATE_SIZE = 76, 199
if found and (not calm or calm > 1 or #found < (calm == 1 and CALM_SIZE or STATE_SIZE)) then
  return redis.error_reply(string.format('OTHERLAYOUT the lock is kept in a form of layout %d that this client does not know',
    VERSION))
end
