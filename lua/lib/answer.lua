-- answer: ends the script with its reply, one packed string, because for Redis an array costs as much as the rest of a
-- script. `own`: the leases and places of the client that asks; `told`: names and values for people, in MessagePack.
-- PACKS: word flags position waiting lease_left_us recover_left_us keep_us memory own told
-- NEEDS: client word told again own_pace keep_us position own owns
-- SETS: known for_people own owns
local known, for_people = '', #told > 0 and cmsgpack.pack(told) or ''
if client ~= '' then
  if cut == 0 and string.match(holder, CLIENT_OF) == client then
    own = struct.pack(OWN, claim, #holder, holder, SEAT_SIZE, VERSION, epoch, holder_ticket, holder_token) .. own
    owns = owns + 1
  end
  -- What the client sends back with its next request.
  if epoch > 0 then
    known = struct.pack(MEMORY, VERSION, epoch, stamp, token, longest, max(pace, recover_pace, own_pace))
  end
end
-- The flags: 1, the client asks again. 2 is reserved: a release may be an HDEL.
return struct.pack('<Bc0BdddddBc0Bc0Ic0', #word, word, again and 1 or 0, position, waiting, max(holder_end - now, 0),
  max(recover_until - now, 0), keep_us, #known, known, owns, own, #for_people, for_people)
