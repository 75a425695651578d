-- clock: the lock clock, and the end of a lease. All times are whole µs below 2^53, exact in Lua and in scores.
-- NEEDS: raw skew seen pace recover_until live_until silent_from silent_until
-- NEEDS: holder holder_end holder_token holder_ticket
-- SETS: now skew pace silent_from silent_until recover_pace lapsed holder holder_end
-- SETS: found_holder found_end found_token found_ticket
local now = raw + skew
local found_holder, found_end, found_token, found_ticket = holder, holder_end, holder_token, holder_ticket
local lapsed = ''
if live_until <= seen then
  pace = 0
elseif pace > 0 then
  -- A waiting client would have sent a request: a longer silence is an outage or a jump, and no evidence of a death.
  -- An hour after the end of all that is left, nobody was there to send one.
  if now <= max(holder_end, live_until, recover_until) + HOUR_US then now = min(now, seen + 2 * pace) end
  -- The latest long silence. Nobody who was heard before it is taken for dead because of it (lib/session.lua). It has
  -- no effect any more when half of its length has passed, and then a shorter one takes its place.
  local latest_us = silent_until - silent_from
  if now > seen and (now - seen > latest_us or 2 * (now - silent_until) > latest_us) then
    silent_from, silent_until = seen, now
  end
end
now = max(now, seen)
skew = now - raw
if now >= recover_until then recover_pace = 0 end

-- From here on `holder` is the current holder, and `lapsed` one whose lease was found to be over.
if holder ~= '' and holder_end <= now then
  lapsed, holder, holder_end = holder, '', 0
end
