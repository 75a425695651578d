-- acquire: take the lock, or join its queue, or re-enter the queue with an old seat. Sending it twice changes nothing.
-- KEYS: lock waiters
-- ARGV: id memory seat terms
--   memory: what the caller was told of the lock · seat: its place, or none · terms: lib/terms.lua
-- REPLY: granted | queued | busy [held…] | disbelieved
--   granted: with the lease among those of the client · queued: with the place there, and its position
--   held…: held_id held_token held_label held_owner held_us held_claim
local id, memory, seat, terms = unpack(ARGV)
-- include keys
-- include terms: terms → liveness_us, buffer_us, heartbeat_us, lease_us, room, as_claim
-- include asker: id → client
-- include known: memory, seat → known_…, seat_…
joining, lenient = room > 0, false -- a server without memory admits no new waiters
-- include begin

local word, told, own_pace = 'disbelieved', {}, heartbeat_us
-- include simple: known_…, seat_… → simple, spare_us
if simple and found_holder == '' and seat == '' and as_claim == 0
  and spare_us >= lease_us and spare_us <= lease_us + 2 * SLACK_US then
  -- The common case: a free lock is granted at once. Without these lines the rest of the script would do the same.
  stamp = joining and raw + 1 or raw
  token, grants, longest, longest_next, generation = stamp, grants + 1, max(longest_next, lease_us), lease_us, stamp
  holder, holder_end, holder_token, holder_ticket = id, now + lease_us, token, raw
  broken, cut, claim, live_until, keep_us = 0, 0, 0, 0, min(longest, HOUR_US * 5 / 6)
  fields = {id, terms}
  -- include write
  word = 'granted'
  -- include answer: the script ends
end

local left_us = lease_us
-- include restore: known_…, seat_…, own_pace, left_us → believed
if not believed then
  -- include answer: the script ends
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
  contender, asked, asked_us = id, terms, lease_us
  ends = now + (as_claim == 1 and min(lease_us, liveness_us) or lease_us)
  -- A client without a session has no waiters.
  local own_session = joining and waiting > 0 and call('HGET', lock, client .. '.')
  queued = own_session and tonumber(call('ZSCORE', waiters, id))
  if joining and seat_ticket > 0 then place = seat_ticket end
  -- An acquire that was executed late, after a loss, may have been given a later ticket.
  if queued then place, moves = min(place, queued), place < queued end
  if joining and place == math.huge and waiting >= room then
    -- Dead waiters take up no room. Those of a client that asks are alive.
    if own_session then
      -- include refresh: client, own_session, liveness_us, buffer_us, heartbeat_us
    end
    -- include heads: place
  end
  -- A full queue admits no newcomer. An id in it, or with an old ticket, has a place.
  joins = joining and (place < math.huge or waiting < room)
  if joins then
    if place == math.huge then
      stamp = max(raw, stamp + 1)
      place = stamp
    end
    if waiting > 0 or holder ~= '' or now < recover_until then
      -- The caller will wait, or other waiters of its client do: this is a sign of life of their session.
      -- include refresh: client, own_session, liveness_us, buffer_us, heartbeat_us
    end
  end
end
-- include promote
-- include commit

if holder == id then
  word = 'granted'
elseif joins then
  -- A new ticket is the last one.
  word = 'queued'
  position = (queued or seat_ticket > 0) and call('ZRANK', waiters, id) + 1 or waiting
  own, owns = struct.pack(OWN, 0, #id, id, SEAT_SIZE, VERSION, epoch, place, 0), 1
else
  word = 'busy'
  -- include tell_holder → told
end
-- include answer: the script ends
