-- in_touch: the state of a calm lock, and whether the client that asks knows of no loss since. See lib/restore.lua.
-- NEEDS: found memory
-- SETS: _ epoch stamp seen skew grants longest longest_next recover_from ttl_until taken_field at in_touch known_pace
local _, _, epoch, stamp, seen, skew, grants, longest, longest_next, recover_from, ttl_until, taken_field, at =
  struct.unpack(CALM, found)
local in_touch, known_pace = memory == '', 0
if #memory >= MEMORY_SIZE then
  local its_version, its_epoch, its_stamp, its_token, _, its_pace = struct.unpack(MEMORY, memory)
  in_touch = its_version == VERSION and its_epoch == epoch and its_stamp <= stamp and its_token <= stamp
  known_pace = its_pace
end
