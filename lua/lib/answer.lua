-- answer: a reply is a word, then names and values. Every waiter learns from it when to ask next. The reply is one string
-- with a MessagePack array: for Redis an array of its own costs as much as the rest of a script.
-- NEEDS: client word told again
if holder ~= '' and cut == 0 and string.match(holder, CLIENT_OF) == client then
  told[#told + 1], told[#told + 2] = 'holder', holder
  told[#told + 1], told[#told + 2] = 'holder_token', holder_token
  told[#told + 1], told[#told + 2] = 'holder_ticket', holder_ticket
  if claim == 1 then told[#told + 1], told[#told + 2] = 'holder_claim', '1' end
end
if again then told[#told + 1], told[#told + 2] = 'again', '1' end
return cmsgpack.pack({word, 'epoch', epoch, 'stamp', stamp, 'token', token, 'waiting', waiting, 'pace_us', max(pace, recover_pace), 'longest_us', longest,
  'lease_left_us', max(holder_end - now, 0), 'recover_left_us', max(recover_until - now, 0), unpack(told)})
