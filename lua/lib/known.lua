-- known: unpacks what the client knows of the lock (its memory), and the place or lease that it brings (its seat).
-- Either may be empty.
-- NEEDS: memory seat
-- SETS: memory_version known_epoch known_stamp known_token known_longest known_pace
-- SETS: seat_version seat_epoch seat_ticket seat_token
if memory ~= '' and (#memory < MEMORY_SIZE or string.byte(memory) ~= VERSION)
  or seat ~= '' and (#seat < SEAT_SIZE or string.byte(seat) ~= VERSION) then return redis.error_reply(BAD_TEXT) end
local memory_version, known_epoch, known_stamp, known_token, known_longest, known_pace =
  struct.unpack(MEMORY, memory ~= '' and memory or string.rep('\0', MEMORY_SIZE))
local seat_version, seat_epoch, seat_ticket, seat_token =
  struct.unpack(SEAT, seat ~= '' and seat or string.rep('\0', SEAT_SIZE))
