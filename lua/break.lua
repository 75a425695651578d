-- break: an operator breaks a lease. Its holder is told, and the lease is not renewed any more: it ends when the holder
-- releases it, or expires. Another call tells the holder again. `force` ends the lease at once, whether the holder
-- knows or not. With token 0 it ends the wait of a recovery for leases that have not come back. Clients whose heartbeat
-- interval is known have the time to return to their places.
-- KEYS: lock
-- ARGV: token force
-- REPLY: told left_us | ended left_us | unknown left_us
local their_token, force = tonumber(ARGV[1]), ARGV[2]
-- include keys
local own_pace = 0
-- include begin
-- include plan
-- include lost
every = true
-- include leases: every

local client, word, told = '', 'unknown', {'left_us', 0}
for i = 1, #leases do
  local lease = leases[i]
  if lease.token == their_token and lease.ends > now then
    word, told = 'told', {'left_us', lease.ends - now}
    messages[1] = {lease, 'break', lease.id == taken_id and taken or call('HGET', lock, lease.id), lease.ends - now}
    lease.broken, lease.changed = 1, true
    if force == '1' then
      word = 'ended'
      lease.ends, lease.how = now, 'broken'
    end
  end
end
if their_token == 0 and force == '1' and now < recover_until then
  word, sole = 'ended', LAST
  -- include recovery
end
-- include promote
-- include commit
-- include answer: the script ends
