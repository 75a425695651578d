-- terms: what an acquire or a renewal asks for. The whole text, as it came, is the entry of its id.
--   room: join the queue if fewer waiters than this are in it, 0 only try · most: how many may hold together while
--   this lease lasts, itself among them · as_claim: 1 grant no more than a claim
--   The sizes of four texts stand before these: see lib/texts.lua.
-- NEEDS: terms
-- SETS: liveness_us buffer_us heartbeat_us lease_us room most as_claim size1 size2 size3 size4 texts_at
local liveness_us, buffer_us, heartbeat_us, lease_us, room, most, as_claim, size1, size2, size3, size4, texts_at =
  struct.unpack(TERMS, terms)
if #terms < texts_at - 1 + size1 + size2 + size3 + size4 then return redis.error_reply(BAD_TERMS) end
if most == 0 then return redis.error_reply(BAD_MOST) end
if most > HUGE then most = HUGE end
