-- acquire: take the lock, or join its queue, or return to it with the ticket of before. Sending it twice changes nothing.
-- KEYS: queue sessions leases entries state
-- ARGV: id wait claim lease_us liveness_us buffer_us heartbeat_us channel secret label owner ticket epoch floor longest_us last_token pace_us
--   wait: 1 join the queue, 0 only try · claim: 1 grant no more than a claim · ticket: 0 for a new one
--   secret: what messages to the caller repeat · epoch: under which the ticket was confirmed, 0 for none
--   floor longest_us last_token pace_us: what the caller knows of the lock, see lib/restore.lua
-- REPLY: granted left_us | queued ticket rank | busy [held_id held_token held_label held_owner held_us] | refused
local id, wait, claim, lease_us, liveness_us, buffer_us, heartbeat_us, channel, secret, label, owner, ticket, their_epoch, floor, longest_us, last_token, pace_us =
  unpack(ARGV)
lease_us, liveness_us, buffer_us, heartbeat_us = tonumber(lease_us), tonumber(liveness_us), tonumber(buffer_us), tonumber(heartbeat_us)
ticket, their_epoch, floor, longest_us = tonumber(ticket), tonumber(their_epoch), tonumber(floor), tonumber(longest_us)
last_token, pace_us = tonumber(last_token), tonumber(pace_us)
-- include begin
local client, word, told = client_of(id), 'refused', {}
local brought, last, left_us = ticket, stamp, longest_us
-- include restore
if not believed then
  -- include answer
end
-- A lease that it knows to be older than the last grant is not restored.
if now < recover_until then token = math.max(token, last_token) end

if holder == id and (not held or held[CUT]) then
  -- It was granted before data was lost; what came after it is not known. The waiter returns to its place.
  holder, holder_end, held = '', 0, nil
end
if epoch == 0 then epoch = next_stamp() end

if holder ~= id then
  contender, entry, ends = id, {lease_us, liveness_us, channel, secret, label, owner}, now + lease_us
  if claim == '1' then ends = math.min(ends, now + liveness_us) end
  joins, place = wait == '1', math.huge -- who only tries comes after all who wait
  if joins then
    queued = waiting > 0 and redis.call('ZSCORE', queue, id)
    place = tonumber(queued) or (ticket > 0 and ticket) or next_stamp()
    if waiting > 0 or holder ~= '' or now < recover_until then
      -- It will wait, or others of its client do: they are alive.
      -- include refresh
    end
  end
end
-- include promote
local lenient = false -- a server without memory lets nobody in
-- include commit

if holder == id then
  word, told = 'granted', {'left_us', holder_end - now, 'granted_token', held[TOKEN]}
elseif joins then
  word, told = 'queued', {'ticket', place, 'rank', redis.call('ZRANK', queue, id)}
else
  word = 'busy'
  if held then
    told = {'held_id', holder, 'held_token', held[TOKEN], 'held_label', held[LABEL], 'held_owner', held[OWNER],
      'held_us', math.max(raw - held[TOKEN], 0)}
  end
end
-- include answer
