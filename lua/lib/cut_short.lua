-- cut_short: from now on an open recovery waits only for waiters that are returning. With it ends a lease from before
-- the loss of data.
-- NEEDS: now
-- SETS: recover_until recover_pace holder holder_end
if recover_from > 0 then recover_until = max(now, recover_from + 3 * recover_pace) end
if recover_until <= now then recover_pace = 0 end
if holder ~= '' and cut == 1 then
  holder_end = min(holder_end, recover_until)
  if holder_end <= now then holder, holder_end = '', 0 end
end
