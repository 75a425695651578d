-- known: unpacks what the client knows of the lock (its memory), and the place or lease that it brings (its seat).
-- Either may be empty.
-- NEEDS: memory seat
-- SETS: _ known_epoch known_stamp known_token known_longest known_pace
-- SETS: seat_epoch seat_ticket seat_token seat_slot seat_most
if memory ~= '' and (#memory < MEMORY_SIZE or string.byte(memory) ~= VERSION)
  or seat ~= '' and (#seat < SEAT_SIZE or string.byte(seat) ~= VERSION) then return redis.error_reply(BAD_TEXT) end
local _, known_epoch, known_stamp, known_token, known_longest, known_pace = 0, 0, 0, 0, 0, 0
local seat_epoch, seat_ticket, seat_token, seat_slot, seat_most = 0, 0, 0, 0, 0
if memory ~= '' then
  _, known_epoch, known_stamp, known_token, known_longest, known_pace = struct.unpack(MEMORY, memory)
end
if seat ~= '' then _, seat_epoch, seat_ticket, seat_token, seat_slot, seat_most = struct.unpack(SEAT, seat) end
if seat_slot >= HUGE then return redis.error_reply(BAD_TEXT) end
