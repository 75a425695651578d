-- answer: a reply is a word, then names and values. Everyone who waits learns from it how long to wait before asking.
local reply = {word, 'epoch', epoch, 'stamp', stamp, 'token', token, 'waiting', waiting,
  'lease_left_us', math.max(holder_end - now, 0), 'recover_left_us', math.max(recover_until - now, 0), unpack(told)}
if held and not held[CUT] and client_of(holder) == client then
  reply[#reply + 1] = 'holder'
  reply[#reply + 1] = holder
  reply[#reply + 1] = 'holder_token'
  reply[#reply + 1] = held[TOKEN]
end
if again then
  reply[#reply + 1] = 'again'
  reply[#reply + 1] = '1'
end
return reply
