-- renew: prolong a lease, which also confirms a claim; or restore what is left of it after data was lost.
-- A lease that has ended is never revived.
-- KEYS: queue sessions leases entries state
-- ARGV: id token lease_us liveness_us channel label owner epoch floor left_us
--   lease_us: how long from now · left_us: what is left by the holder's own clock
-- REPLY: renewed left_us | broken left_us | lost
local id, their_token, lease_us, liveness_us, channel, label, owner, their_epoch, floor, left_us = unpack(ARGV)
local client = client_of(id)
their_token, lease_us, liveness_us, left_us = tonumber(their_token), tonumber(lease_us), tonumber(liveness_us), tonumber(left_us)

local believed = restore(tonumber(their_epoch), their_token, token, tonumber(floor), liveness_us, left_us)
local word = 'lost'
local mine = holder == id and held and held[TOKEN] == their_token
if mine and held[BROKEN] then
  word = 'broken'
elseif mine and not held[CUT] then
  word = 'renewed'
  holder_end = math.max(holder_end, now + lease_us)
elseif believed and now < recover_until and left_us > 0
  and (token < their_token or token == their_token and (holder == '' or holder == id)) then
  -- Nothing was granted since. What stands here is from before: an older lease, its own entry in the queue.
  word = 'renewed'
  if holder ~= '' and holder ~= id then drop_lease() end
  if redis.call('ZSCORE', queue, id) then drop_waiter(id) end
  token = their_token
  holder, holder_end, held = id, now + left_us, {lease_us, liveness_us, channel, label, owner, their_token}
  put_entry(id, held)
end
if word == 'lost' then promote() end
commit(true)

if word == 'lost' then return answer('lost', client) end
return answer(word, client, 'left_us', holder_end - now)
