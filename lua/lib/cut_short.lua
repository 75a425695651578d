-- cut_short: an open recovery ends by `ends_by` at the latest, and a lease from before the loss of data ends with it.
-- NEEDS: ends_by now
-- SETS: recover_until holder holder_end
recover_until = min(recover_until, max(now, ends_by))
if holder ~= '' and cut == 1 then
  holder_end = min(holder_end, recover_until)
  if holder_end <= now then holder, holder_end = '', 0 end
end
