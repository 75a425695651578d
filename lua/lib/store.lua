-- store: writes the numbers, the leases and the planned entries. A `lenient` script goes on when memory is short: once
-- a script has written anything, the server accepts its other writes.
-- NEEDS: lenient fields leases held claims calm raw now
-- SETS: zeroth fields numbers written
local zeroth = held == 0 and '' -- the lease of slot 0
for i = 1, #leases do
  local lease = leases[i]
  if lease.changed and lease.ends > now then
    local text = struct.pack(LEASE, lease.most, lease.claim, lease.broken, lease.ends, lease.token, lease.ticket,
      #lease.id, lease.id) .. lease.beyond
    if lease.slot == 0 then
      zeroth = text
    else
      fields[#fields + 1], fields[#fields + 2] = struct.pack(SLOT, '#', lease.slot), text
    end
  end
end
if not zeroth then
  zeroth = zeroth_size > 0 and string.byte(tags, 4) > 0 and string.sub(zeroth_in, zeroth_at, zeroth_at + zeroth_size - 1)
    or ''
end
if calm == 1 then
  local field = '' -- nobody holds it
  -- include short: field → numbers
else
  numbers = struct.pack(STATE, VERSION, 0, recorded, stamp, token, epoch, now, skew, pace, pace_next, pace_turn, silent_from,
    silent_until, recover_from, wait_places, wait_leases, sole, grants, longest, longest_next, generation, waiting,
    live_until, ttl_until, held > 0 and first_end or 0, last_end, held, claims, limit, limited, #tags, tags, #zeroth,
    zeroth) .. beyond
end
local written = redis.pcall('HSET', lock, '', numbers, unpack(fields))
if type(written) == 'table' then
  if not lenient or not string.find(written.err, 'OOM', 1, true) then return written end
  call('PEXPIRE', lock, string.format('%.0f', math.ceil((ttl_until - raw) / 1000)))
  call('HSET', lock, '', numbers, unpack(fields))
end
