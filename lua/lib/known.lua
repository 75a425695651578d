-- known: unpacks what the client knows of the lock (its memory), and the place or lease that it brings (its seat).
-- Either may be empty. Numbers that no script gives are implausible (lib/restore.lua), and so is all that is with them.
-- NEEDS: memory seat
-- SETS: memory_version seat_version known_epoch known_stamp known_token known_longest known_pace
-- SETS: seat_epoch seat_ticket seat_token seat_slot seat_most
if memory ~= '' and #memory < MEMORY_SIZE or seat ~= '' and #seat < SEAT_SIZE then return redis.error_reply(BAD_TEXT) end
local memory_version, known_epoch, known_stamp, known_token, known_longest, known_pace = VERSION, 0, 0, 0, 0, 0
local seat_version = VERSION
if memory ~= '' then
  memory_version, known_epoch, known_stamp, known_token, known_longest, known_pace = struct.unpack(MEMORY, memory)
end
if seat ~= '' then
  seat_version, seat_epoch, seat_ticket, seat_token, seat_slot, seat_most = struct.unpack(SEAT, seat)
end
if memory_version ~= VERSION or seat_version ~= VERSION then return redis.error_reply(BAD_TEXT) end
if known_epoch % 1 + known_stamp % 1 + known_token % 1 + known_longest % 1 + known_pace % 1
  + seat_epoch % 1 + seat_ticket % 1 + seat_token % 1 ~= 0
  or known_longest > LONGEST_US or known_pace > LONGEST_US then
  known_stamp, known_longest, known_pace = math.huge, 0, 0
end
if seat_slot >= HUGE then return redis.error_reply(BAD_TEXT) end
if seat_most > HUGE then seat_most = HUGE end
