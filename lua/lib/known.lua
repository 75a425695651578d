-- known: unpacks what the client knows of the lock (its memory), and the place or lease that it brings (its seat). Either
-- may be empty.
-- NEEDS: memory seat
-- SETS: known_epoch known_stamp known_token known_longest known_pace seat_epoch seat_ticket seat_token
local known_epoch, known_stamp, known_token, known_longest, known_pace = 0, 0, 0, 0, 0
local seat_epoch, seat_ticket, seat_token = 0, 0, 0
do
  local version
  if memory ~= '' then
    if #memory ~= 41 or string.byte(memory) ~= VERSION then return redis.error_reply(BAD_TEXT) end
    version, known_epoch, known_stamp, known_token, known_longest, known_pace = struct.unpack(MEMORY, memory)
  end
  if seat ~= '' then
    if #seat ~= 25 or string.byte(seat) ~= VERSION then return redis.error_reply(BAD_TEXT) end
    version, seat_epoch, seat_ticket, seat_token = struct.unpack(SEAT, seat)
  end
end
