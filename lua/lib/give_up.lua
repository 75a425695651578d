-- give_up: an id gives up its lease or its place in the queue.
-- NEEDS: id broken now recover_until lapsed holder_token leaving
-- SETS: gave_up holder holder_end token stamp waiting ended_how
local gave_up
if now < recover_until and (holder == id or lapsed == id) then
  -- In a recovery a lease can be re-asserted if no newer token is known. One that was given up must not be.
  token = max(token, holder_token + 1)
  stamp = max(stamp, token)
end
if holder == id then
  gave_up = 'released'
  holder, holder_end = '', 0
  ended_how = broken == 1 and 'broken' or 'released'
elseif lapsed == id then
  gave_up = 'expired'
elseif waiting > 0 and not leaving[id] and call('ZSCORE', waiters, id) then
  gave_up = 'left'
  leaving[#leaving + 1], leaving[id], waiting = id, true, waiting - 1
end
