-- answer: a reply is a word, then names and values. Every waiter learns from it how long to wait before it asks.
-- NEEDS: client word told
if holder ~= '' and cut == 0 and string.match(holder, CLIENT_OF) == client then
  told[#told + 1], told[#told + 2] = 'holder', holder
  told[#told + 1], told[#told + 2] = 'holder_token', holder_token
  told[#told + 1], told[#told + 2] = 'holder_ticket', holder_ticket
end
if again then told[#told + 1], told[#told + 2] = 'again', '1' end
return {word, 'epoch', epoch, 'stamp', stamp, 'token', token, 'waiting', waiting, 'pace_us', pace, 'longest_us', longest,
  'lease_left_us', max(holder_end - now, 0), 'recover_left_us', max(recover_until - now, 0), unpack(told)}
