-- answer: ends the script with its reply: a word, then names and values. The reply is one string with a MessagePack
-- array, because for Redis an array of its own costs as much as the rest of a script.
-- NEEDS: client word told again own_pace keep_us
-- SETS: told
if again then told[#told + 1], told[#told + 2] = 'again', 1 end
if client ~= '' then
  if cut == 0 and string.match(holder, CLIENT_OF) == client then
    if claim == 1 then told[#told + 1], told[#told + 2] = 'holder_claim', 1 end
    told = {'holder', holder, 'holder_token', holder_token, 'holder_ticket', holder_ticket,
      'holder_seat', struct.pack(SEAT, VERSION, epoch, holder_ticket, holder_token), unpack(told)}
  end
  -- What the client sends back with its next request.
  local known = epoch == 0 and ''
    or struct.pack(MEMORY, VERSION, epoch, stamp, token, longest, max(pace, recover_pace, own_pace))
  told = {'memory', known, 'keep_us', keep_us, unpack(told)}
end
return cmsgpack.pack({word, 'epoch', epoch, 'stamp', stamp, 'waiting', waiting,
  'lease_left_us', max(holder_end - now, 0), 'recover_left_us', max(recover_until - now, 0), unpack(told)})
