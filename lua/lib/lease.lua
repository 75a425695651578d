-- lease: the lease of a slot, as it was found. A silence costs a claim no more than it costs a waiter
-- (lib/session.lua). No script leaves a tag without its lease. Should one be found, it counts as a lease that is over,
-- of nobody.
-- NEEDS: slot zeroth_in zeroth_at zeroth_size now silent_from silent_until
-- SETS: text from till its_most claim broken its_end its_token its_ticket holder at lease
local text, from, till = zeroth_in, zeroth_at, zeroth_at + zeroth_size - 1
if slot > 0 then
  text, from = call('HGET', lock, struct.pack(SLOT, '#', slot)) or '', 1
  till = #text
end
if from > till then text, from = struct.pack(LEASE, HUGE, 0, 0, 0, 0, 0, 4, string.format('?%03d', slot)), 1 end
local its_most, claim, broken, its_end, its_token, its_ticket, holder, at = struct.unpack(LEASE, text, from)
local lease = {slot = slot, most = its_most, claim = claim, broken = broken, ends = its_end, token = its_token,
  ticket = its_ticket, id = holder, beyond = at <= till and string.sub(text, at, till) or ''}
if claim == 1 and broken == 0 and its_end <= now and its_end > silent_from then
  -- The record keeps its end, so that one outage is not followed by others.
  local _, _, its_beat = struct.unpack(TERMS, call('HGET', lock, holder))
  if silent_until - silent_from > 1.5 * its_beat then lease.ends = max(its_end, silent_until + its_beat) end
end
