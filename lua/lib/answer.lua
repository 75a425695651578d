-- answer: a reply is a word, then names and values. Everyone who waits learns from it how long to wait before asking.
if held and not held[CUT] and client_of(holder) == client then
  told[#told + 1], told[#told + 2] = 'holder', holder
  told[#told + 1], told[#told + 2] = 'holder_token', held[TOKEN]
  told[#told + 1], told[#told + 2] = 'holder_ticket', held[TICKET]
end
if again then told[#told + 1], told[#told + 2] = 'again', '1' end
return {word, 'epoch', epoch, 'stamp', stamp, 'token', token, 'waiting', waiting, 'pace_us', pace, 'longest_us', longest,
  'lease_left_us', math.max(holder_end - now, 0), 'recover_left_us', math.max(recover_until - now, 0), unpack(told)}
