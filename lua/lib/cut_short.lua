-- cut_short: ends an open recovery by `ends_by`, and with it a lease from before the loss of data.
-- NEEDS: ends_by now
-- SETS: recover_until holder holder_end
recover_until = min(recover_until, max(now, ends_by))
if holder ~= '' and cut == 1 then
  holder_end = min(holder_end, recover_until)
  if holder_end <= now then holder, holder_end = '', 0 end
end
