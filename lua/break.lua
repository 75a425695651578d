-- break: an operator breaks a lease. Its holder is told, and the lease is not renewed any more: it ends when the holder
-- releases it, or expires. Another call tells the holder again. `force` ends the lease at once, whether the holder
-- knows or not, and also ends a recovery; with token 0 it ends only the recovery. Clients whose heartbeat interval is
-- known have the time to return to their places.
-- KEYS: lock waiters
-- ARGV: token force
-- REPLY: told left_us | ended left_us | unknown left_us
local their_token, force = tonumber(ARGV[1]), ARGV[2]
-- include keys
-- include begin

local client, word, told, own_pace = '', 'unknown', {'left_us', 0}, 0
if holder ~= '' and holder_token == their_token then
  word, told = 'told', {'left_us', holder_end - now}
  ended_how = 'broken'
  messages[1] = {call('HGET', lock, holder), 'break', holder, holder_token, holder_ticket, holder_end - now}
  -- In a recovery a lease can be re-asserted if no newer token is known. A lease that was broken must not be.
  token = max(token, their_token + 1)
  stamp = max(stamp, token)
  if force == '1' then
    word = 'ended'
    holder, holder_end = '', 0
  else
    broken = 1
  end
elseif their_token == 0 and force == '1' and now < recover_until then
  word = 'ended'
end
if word == 'ended' and now < recover_until then
  -- From now on the recovery waits only for waiters that are returning, and no client prolongs it.
  -- include cut_short
  recover_from = 0
end
-- include promote
-- include commit
-- include answer: the script ends
