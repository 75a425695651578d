-- renew: prolong a lease, which also confirms a claim; or restore what is left of it after data was lost.
-- A lease that has ended is never revived.
-- KEYS: queue sessions leases entries state
-- ARGV: id token lease_us liveness_us channel secret label owner epoch floor left_us pace_us
--   lease_us: how long from now · left_us: what is left by the holder's own clock · epoch floor pace_us: see lib/restore.lua
-- REPLY: renewed left_us | broken left_us | lost
local id, their_token, lease_us, liveness_us, channel, secret, label, owner, their_epoch, floor, left_us, pace_us = unpack(ARGV)
their_token, lease_us, liveness_us = tonumber(their_token), tonumber(lease_us), tonumber(liveness_us)
their_epoch, floor, left_us, pace_us = tonumber(their_epoch), tonumber(floor), tonumber(left_us), tonumber(pace_us)
-- include begin
local brought, last, last_token = their_token, token, their_token
-- include restore

local client, word, told = client_of(id), 'lost', {}
local mine = holder == id and held and held[TOKEN] == their_token
if mine and held[BROKEN] then
  word = 'broken'
elseif mine and not held[CUT] then
  word = 'renewed'
  holder_end = math.max(holder_end, now + lease_us)
elseif believed and now < recover_until and left_us > 0 and token <= their_token
  and (holder == '' or holder == id or not held or held[TOKEN] < their_token) then
  -- Nothing was granted since. What stands here is from before: an older lease, its own entry in the queue.
  word = 'renewed'
  if redis.call('ZSCORE', queue, id) then leaving[1], leaving[id], waiting = id, true, waiting - 1 end
  token = their_token
  holder, holder_end, held = id, now + left_us, {lease_us, liveness_us, channel, secret, label, owner, their_token, their_token}
  put_entry(id, held)
  longest = math.max(longest, lease_us)
end
-- include promote
local lenient = true
-- include commit

if word ~= 'lost' then told = {'left_us', holder_end - now} end
-- include answer
