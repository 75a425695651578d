-- write: writes the numbers, the holder and the planned entries. A `lenient` script goes on when memory is short: once
-- a script has written anything, the server accepts its other writes.
-- NEEDS: lenient fields raw now
-- SETS: numbers written
local numbers = struct.pack(NUMBERS, VERSION, broken, cut, claim, recorded, stamp, token, epoch, now, skew, pace,
  pace_until, silent_from, silent_until, recover_from, recover_until, recover_pace, grants, longest, longest_next,
  generation, waiting, live_until, ttl_until, holder_end, holder_token, holder_ticket, #holder, holder) .. beyond
local written = redis.pcall('HSET', lock, '', numbers, unpack(fields))
if type(written) == 'table' then
  if not lenient or not string.find(written.err, 'OOM', 1, true) then return written end
  call('PEXPIRE', lock, string.format('%.0f', math.ceil((ttl_until - raw) / 1000)))
  call('HSET', lock, '', numbers, unpack(fields))
end
