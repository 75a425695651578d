-- answer: ends the script with its reply: a word, then names and values. The reply is one string with a MessagePack array,
-- because for Redis an array of its own costs as much as the rest of a script.
-- NEEDS: client word told again own_pace keep_us
if client ~= '' then
  local n = #told
  -- What the client sends back with its next request.
  local known = epoch > 0 and struct.pack(MEMORY, VERSION, epoch, stamp, token, longest, max(pace, recover_pace, own_pace)) or ''
  told[n + 1], told[n + 2], told[n + 3], told[n + 4] = 'memory', known, 'keep_us', keep_us
  if holder ~= '' and cut == 0 and string.match(holder, CLIENT_OF) == client then
    told[n + 5], told[n + 6], told[n + 7], told[n + 8] = 'holder', holder, 'holder_token', holder_token
    told[n + 9], told[n + 10] = 'holder_ticket', holder_ticket
    told[n + 11], told[n + 12] = 'holder_seat', struct.pack(SEAT, VERSION, epoch, holder_ticket, holder_token)
    if claim == 1 then told[n + 13], told[n + 14] = 'holder_claim', 1 end
  end
end
if again then told[#told + 1], told[#told + 2] = 'again', 1 end
return cmsgpack.pack({word, 'epoch', epoch, 'stamp', stamp, 'waiting', waiting, 'lease_left_us', max(holder_end - now, 0),
  'recover_left_us', max(recover_until - now, 0), unpack(told)})
