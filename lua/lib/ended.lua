-- ended: what the history tells of a lease that has ended in this script.
-- NEEDS: recorded holder holder_token found_holder found_token found_ticket found_end lapsed ended_how raw now
-- SETS: ended
local ended
if recorded == 1 and found_holder ~= '' and (holder ~= found_holder or holder_token ~= found_token) then
  local entry = call('HGET', lock, found_holder)
  -- include texts: entry → label, owner
  local over_us = lapsed ~= '' and now - found_end or 0 -- since when it was over
  ended = cmsgpack.pack({found_holder, found_token, label, owner, found_token - found_ticket,
    max(raw - over_us - found_token, 0), lapsed ~= '' and 'expired' or ended_how})
end
