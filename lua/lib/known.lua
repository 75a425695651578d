-- known: unpacks what the client knows of the lock (its memory), and the place or lease that it brings (its seat).
-- Either may be empty.
-- NEEDS: memory seat
-- SETS: memory_version known_epoch known_stamp known_token known_longest known_pace
-- SETS: seat_version seat_epoch seat_ticket seat_token
local memory_version, known_epoch, known_stamp, known_token, known_longest, known_pace = VERSION, 0, 0, 0, 0, 0
local seat_version, seat_epoch, seat_ticket, seat_token = VERSION, 0, 0, 0
if #memory == 41 then
  memory_version, known_epoch, known_stamp, known_token, known_longest, known_pace = struct.unpack(MEMORY, memory)
end
if #seat == 25 then seat_version, seat_epoch, seat_ticket, seat_token = struct.unpack(SEAT, seat) end
if memory ~= '' and #memory ~= 41 or seat ~= '' and #seat ~= 25
  or memory_version ~= VERSION or seat_version ~= VERSION then return redis.error_reply(BAD_TEXT) end
