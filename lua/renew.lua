-- renew: renew a lease, or confirm a claim; after a loss of data, re-assert what is left of the lease.
-- A lease that has ended is never revived.
-- KEYS: lock waiters
-- ARGV: id token lease_us liveness_us channel secret label owner epoch floor left_us pace_us
--   lease_us: its length from now on · left_us: what is left by the holder's clock · epoch floor pace_us: see lib/restore.lua
-- REPLY: renewed left_us | broken left_us | lost
local id, their_token, lease_us, liveness_us, channel, secret, label, owner, their_epoch, floor, left_us, pace_us = unpack(ARGV)
their_token, lease_us, liveness_us = tonumber(their_token), tonumber(lease_us), tonumber(liveness_us)
their_epoch, floor, left_us, pace_us = tonumber(their_epoch), tonumber(floor), tonumber(left_us), tonumber(pace_us)
-- include keys
local client = string.match(id, CLIENT_OF)
if not client then return redis.error_reply(BAD_ID) end
local found, own_entry = unpack(call('HMGET', lock, '', id))
local joining = false
-- include begin
local brought, last, last_token = their_token, token, their_token
-- include restore

local word, told = 'lost', {}
local mine = holder == id and holder_token == their_token
if mine and broken == 1 then
  word = 'broken'
elseif mine and cut == 0 then
  word = 'renewed'
  holder_end, longest, claim = max(holder_end, now + lease_us), max(longest, lease_us), 0
elseif believed and now < recover_until and left_us > 0 and token <= their_token
  and (holder == '' or holder == id or holder_token < their_token) then
  -- Nothing was granted since. The state found is older: it has an earlier lease, or the id's own place in the queue.
  word = 'renewed'
  if own_entry and id ~= found_holder and not lost then leaving[1], leaving[id], waiting = id, true, waiting - 1 end
  token = their_token
  holder, holder_end, holder_token, holder_ticket, broken, cut, claim = id, now + left_us, their_token, their_token, 0, 0, 0
  fields[1], fields[2] = id, cmsgpack.pack({lease_us, liveness_us, channel, secret, label, owner})
  longest = max(longest, lease_us)
end
-- include promote
local lenient = true
-- include commit

if word ~= 'lost' then told = {'left_us', holder_end - now} end
-- include answer
