-- clock: the lock clock and the stamps. All times are whole µs below 2^53, exact in Lua and in scores.
local raw = server_time()
local now = raw + skew
if seen == 0 then
  -- The clock was lost, unless this lock is new, and TIME need not be near the deadlines that are left of it. It goes
  -- on from where they had their whole length before them. What does not tell its length is over.
  if holder ~= '' then
    now = holder_end - (held and held[LEASE] or 0)
  elseif waiting > 0 and last_session > 0 then
    local first = entry_of(redis.call('ZRANGE', queue, '0', '0')[1])
    now = last_session - (first and first[LIVENESS] or 0)
  end
elseif last_session <= seen then
  pace = 0
elseif pace > 0 then
  -- Somebody waits and would have called: a longer silence is an outage or a jump, not evidence that anybody died.
  now = math.min(now, seen + 2 * pace)
end
now = math.max(now, seen)
skew = now - raw

-- From here on `holder` is who has the lock now; `lapsed` is whose lease was found to be over.
local lapsed = ''
if holder_end <= now and holder ~= '' then
  lapsed, holder, holder_end, held = holder, '', 0, nil
end

-- A hybrid logical clock for tickets, tokens and epochs. From TIME itself: the lock clock may lag behind it.
local function next_stamp()
  stamp = math.max(raw, stamp + 1)
  return stamp
end
