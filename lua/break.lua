-- break: an operator ends a lease. Its holder is told, and the lease is not renewed any more: it ends when the holder
-- answers, or at its end. Saying it again tells again. `force` ends it at once, whether the holder knows or not.
-- KEYS: queue sessions leases entries state
-- ARGV: token force
-- REPLY: told left_us | ended | unknown
local their_token, force = tonumber(ARGV[1]), ARGV[2]

local word, left = 'unknown', 0
if held and held[TOKEN] == their_token then
  word, left = 'told', holder_end - now
  publish(held, 'break', holder, their_token, left)
  pass_over(their_token)
  if force == '1' then
    word = 'ended'
    drop_lease()
  elseif not held[BROKEN] then
    held[BROKEN], held[CUT] = true, held[CUT] or false
    put_entry(holder, held)
  end
end
promote()
commit(true)
return answer(word, '', 'left_us', left)
