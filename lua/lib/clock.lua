-- clock: the lock clock. All times are whole µs below 2^53, exact in Lua and in scores.
-- NEEDS: raw skew seen pace recover_until live_until holder holder_end holder_token holder_ticket
-- SETS: now skew pace recover_pace found_holder found_end found_token found_ticket lapsed holder holder_end
local now = raw + skew
local found_holder, found_end, found_token, found_ticket = holder, holder_end, holder_token, holder_ticket
local lapsed = ''
do
  if live_until <= seen then
    pace = 0
  elseif pace > 0 then
    -- A waiting client would have sent a request: a longer silence is an outage or a jump, and no evidence of a death.
    now = min(now, seen + 2 * pace)
  end
  now = max(now, seen)
  skew = now - raw
  if now >= recover_until then recover_pace = 0 end

  -- From here on `holder` is the current holder, and `lapsed` one whose lease was found to be over.
  if holder ~= '' and holder_end <= now then
    lapsed, holder, holder_end = holder, '', 0
  end
end
