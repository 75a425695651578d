-- acquire: take the lock, or join its queue, or re-enter the queue with an old ticket. Sending it twice changes nothing.
-- KEYS: lock waiters
-- ARGV: id room as_claim lease_us liveness_us buffer_us heartbeat_us channel secret label owner ticket epoch floor longest_us last_token pace_us
--   room: join the queue if fewer waiters than this are in it, 0 only try · as_claim: 1 grant no more than a claim · ticket: 0 for a new one
--   secret: messages to the caller repeat it · epoch: under which the ticket was confirmed, 0 for none
--   floor longest_us last_token pace_us: what the caller knows of the lock, see lib/restore.lua
-- REPLY: granted left_us granted_token | queued ticket rank | busy [held_id held_token held_label held_owner held_us held_claim] | disbelieved
local id, room, as_claim, lease_us, liveness_us, buffer_us, heartbeat_us, channel, secret, label, owner, ticket, their_epoch, floor, longest_us, last_token, pace_us =
  unpack(ARGV)
lease_us, liveness_us, buffer_us, heartbeat_us = tonumber(lease_us), tonumber(liveness_us), tonumber(buffer_us), tonumber(heartbeat_us)
ticket, their_epoch, floor, longest_us = tonumber(ticket), tonumber(their_epoch), tonumber(floor), tonumber(longest_us)
last_token, pace_us, room = tonumber(last_token), tonumber(pace_us), tonumber(room)
-- include keys
local client = string.match(id, CLIENT_OF)
if not client then return redis.error_reply(BAD_ID) end
local found, own_entry, own_session = unpack(call('HMGET', lock, '', id, client .. '.'))
local joining = room > 0
-- include begin
local word, told = 'disbelieved', {}
local brought, last, left_us = ticket, stamp, longest_us
-- include restore
if not believed then
  -- include answer
end

if holder == id and cut == 1 then
  -- The lease was granted before the loss of data; later grants are not known. The waiter returns to its place.
  holder, holder_end, cut = '', 0, 0
end
if epoch == 0 then
  stamp = max(raw, stamp + 1)
  epoch = stamp
end

if holder ~= id then
  contender, terms, ends = id, {lease_us, liveness_us, channel, secret, label, owner}, now + lease_us
  if as_claim == '1' then ends = min(ends, now + liveness_us) end
  queued = joining and own_entry and id ~= found_holder and not lost
  -- A full queue admits no newcomer. An id in it, or with an old ticket, has a place.
  joins, place = joining and (queued or ticket > 0 or waiting < room), math.huge -- a try comes after all waiters
  if joins then
    if queued then
      place = tonumber(call('ZSCORE', waiters, id))
    elseif ticket > 0 then
      place = ticket
    else
      stamp = max(raw, stamp + 1)
      place = stamp
    end
    if waiting > 0 or holder ~= '' or now < recover_until then
      -- The caller will wait, or other waiters of its client do: this is a sign of life of their session.
      -- include refresh
    end
  end
end
-- include promote
local lenient = false -- a server without memory admits no new waiters
-- include commit

if holder == id then
  word, told = 'granted', {'left_us', holder_end - now, 'granted_token', holder_token}
elseif joins then
  -- A new ticket is the last one.
  word, told = 'queued', {'ticket', place, 'rank', (queued or ticket > 0) and call('ZRANK', waiters, id) or waiting - 1}
else
  word = 'busy'
  -- include tell_holder
end
-- include answer
