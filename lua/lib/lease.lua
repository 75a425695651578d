-- lease: the lease of a slot, as it was found.
-- NEEDS: slot found zeroth_at zeroth_size
-- SETS: text from till its_most claim broken its_end its_token its_ticket holder at lease
local text, from, till = found, zeroth_at, zeroth_at + zeroth_size - 1
if slot > 0 then
  text, from = call('HGET', lock, struct.pack(SLOT, '#', slot)), 1
  till = #text
end
local its_most, claim, broken, its_end, its_token, its_ticket, holder, at = struct.unpack(LEASE, text, from)
local lease = {slot = slot, most = its_most, claim = claim, broken = broken, ends = its_end, token = its_token,
  ticket = its_ticket, id = holder, beyond = at <= till and string.sub(text, at, till) or ''}
