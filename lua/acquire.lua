-- acquire: take the lock, or join its queue, or re-enter the queue with an old seat. Sending it twice changes nothing.
-- KEYS: lock
-- ARGV: id memory seat terms
--   memory: what the caller was told of the lock · seat: its place, or none · terms: lib/terms.lua
-- REPLY: granted | queued | busy holders | disbelieved
--   granted: with the lease among those of the client · queued: with the place there, and its position
--   holders: lib/tell_holders.lua
local id, memory, seat, terms = unpack(ARGV)
-- include keys
-- include terms: terms → liveness_us, buffer_us, heartbeat_us, lease_us, room, most, as_claim
-- include asker: id → client
joining, lenient = room > 0, false -- a server without memory admits no new waiters
local own_pace, left_us, shortest_us = heartbeat_us, lease_us, min(lease_us, liveness_us)
-- include times
-- include found
-- include time
-- include calm_grant: the script ends, if it grants a calm lock
-- include known: memory, seat → known_…, seat_…
-- include state
-- include clock
-- include plan
-- include lost

local word, told = 'disbelieved', nil
-- include restore: known_…, seat_…, own_pace, left_us → believed
named = {id}
-- include leases: named → mine
if not believed then
  -- include sweep
  -- include answer: the script ends
end
if epoch == 0 then
  stamp = max(raw, stamp + 1)
  epoch = stamp
end

local own_session
if not mine or mine.ends <= now then
  contender, asked, asked_us, asked_most = id, terms, lease_us, most
  ends = now + (as_claim == 1 and min(lease_us, liveness_us) or lease_us)
  -- A client without a session has no waiters.
  own_session = joining and waiting > 0 and call('HGET', lock, client .. '.')
  queued = own_session and tonumber(call('ZSCORE', waiters, id))
  if joining and seat_ticket > 0 then place = seat_ticket end
  -- An acquire that was executed late, after a loss, may have been given a later ticket.
  if queued then place, moves = min(place, queued), place < queued end
  if own_session then
    -- The client is alive, and so are its other waiters.
    -- include refresh: client, own_session, liveness_us, buffer_us, heartbeat_us
  end
  if joining and place == math.huge and waiting >= room then
    -- Dead waiters take up no room.
    -- include heads: place
  end
  -- A full queue admits no newcomer. An id in it, or with an old ticket, has a place.
  joins = joining and (place < math.huge or waiting < room)
  if joins and place == math.huge then
    stamp = max(raw, stamp + 1)
    place = stamp
  end
end
-- include promote
if contender and joins then
  -- Also of a waiter in the queue, whose terms may have changed.
  fields[1], fields[2] = contender, terms
  longest, longest_next = max(longest, lease_us), max(longest_next, lease_us)
  if not sessions[client] then
    -- include refresh: client, own_session, liveness_us, buffer_us, heartbeat_us
  end
  if not queued then
    waiting = waiting + 1
    sessions[client][2] = sessions[client][2] + 1
  end
end
-- include commit

mine = leases[id]
if mine and mine.ends > now then
  word = 'granted'
elseif joins then
  -- A new ticket is the last one.
  word = 'queued'
  position = (queued or seat_ticket > 0) and call('ZRANK', waiters, id) + 1 or waiting
  own[1] = struct.pack(OWN, 0, #id, id, SEAT_SIZE, VERSION, epoch, place, 0, 0, most, 0)
else
  word = 'busy'
  local tell_from, tell_most = 0, 16
  -- include tell_holders → holders
  told = {'holders', holders}
end
-- include answer: the script ends
