-- renew: renew a lease, or confirm a claim; after a loss of data, re-assert what is left of the lease.
-- KEYS: lock waiters
-- ARGV: id memory seat terms left
--   memory: what the holder was told of the lock · seat: of the lease · terms: as of its acquire, but for the length of
--   the lease from now on · left: what is left of the lease by the holder's clock, packed
-- REPLY: renewed | broken | lost
--   renewed, broken: with the lease among those of the client
local id, memory, seat, terms, left = unpack(ARGV)
local left_us = struct.unpack('<d', left)
-- include keys
-- include terms: terms → lease_us
-- include asker: id → client
-- include known: memory, seat → known_…, seat_…
-- include begin
local own_pace = known_pace
-- include restore: known_…, seat_…, own_pace, left_us → believed

local word, told = 'lost', {}
if lapsed == id and found_token == seat_token and left_us > 0 and now >= recover_until
  and broken == 0 and cut == 0 then
  -- The server has forgotten a renewal, or its clock has jumped: the holder's own clock counts, because nobody was
  -- granted the lock since.
  holder = id
end
local mine = holder == id and holder_token == seat_token
if mine and broken == 1 then
  word = 'broken'
elseif mine and cut == 0 then
  word = 'renewed'
  holder_end, claim = max(holder_end, now + lease_us), 0
elseif believed and now < recover_until and left_us > 0 and token <= seat_token
  and (holder == '' or holder == id or holder_token < seat_token) then
  -- Nothing was granted since. The state found is older: it has an earlier lease, or the id's own place in the queue.
  word = 'renewed'
  if waiting > 0 and call('ZSCORE', waiters, id) then leaving[1], leaving[id], waiting = id, true, waiting - 1 end
  holder, holder_end, holder_token, holder_ticket = id, now + left_us, seat_token, seat_ticket
  token, broken, cut, claim = seat_token, 0, 0, 0
  fields[1], fields[2] = id, terms
end
if word == 'renewed' then longest, longest_next = max(longest, lease_us), max(longest_next, lease_us) end
-- include promote
-- include commit
-- include answer: the script ends
