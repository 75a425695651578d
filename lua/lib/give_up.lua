-- give_up: an id gives up its lease or its place in the queue.
-- NEEDS: id broken now lapsed leaving
-- SETS: gave_up holder holder_end token stamp waiting ended_how
local gave_up
if holder == id then
  gave_up = 'released'
  -- In a recovery a lease can be re-asserted if no newer token is known. A released lease must not be.
  if now < recover_until then token = max(token, holder_token + 1) end
  stamp = max(stamp, token)
  holder, holder_end = '', 0
  ended_how = broken == 1 and 'broken' or 'released'
elseif lapsed == id then
  gave_up = 'expired'
elseif waiting > 0 and not leaving[id] and call('ZSCORE', waiters, id) then
  gave_up = 'left'
  leaving[#leaving + 1], leaving[id], waiting = id, true, waiting - 1
end
