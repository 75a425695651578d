-- renew: renew a lease, or confirm a claim; after a loss of data, bring back what is left of the lease.
-- KEYS: lock
-- ARGV: id memory seat terms left
--   memory: what the holder was told of the lock · seat: of the lease · terms: as of its acquire, but for the length of
--   the lease from now on, and for `most`, which may be more than before, and never gets less · left: what is left of
--   the lease by the holder's clock, packed
-- REPLY: renewed | broken | lost
--   renewed, broken: with the lease among those of the client
local id, memory, seat, terms, left = unpack(ARGV)
local left_us = struct.unpack('<d', left)
-- include keys
-- include terms: terms → lease_us, most
local shortest_us = lease_us
-- include times
-- include asker: id → client
-- include known: memory, seat → known_…, seat_…
local own_pace = known_pace
-- include begin
-- include plan
-- include lost
-- include restore: known_…, seat_…, own_pace, left_us → believed
named = {id}
-- include leases: named → mine

local word, told = 'lost', nil
-- Also a lease that is over, if no script has ended it: the server has forgotten a renewal, or its clock has jumped.
if mine and mine.token == seat_token and not mine.how and (mine.ends > now or left_us > 0 and mine.broken == 0) then
  word = mine.broken == 1 and 'broken' or 'renewed'
  if mine.broken == 0 then
    -- A renewal prolongs a lease. Of a claim it makes one that lasts for as long as its holder asked.
    mine.ends = mine.claim == 1 and now + lease_us or max(mine.ends, now + lease_us)
    mine.most, mine.claim, mine.changed = max(mine.most, most), 0, true
  end
else
  seat_most = max(seat_most, most)
  -- include bring_back: id, seat_…, seat_most, left_us → brought
  if brought then
    word = 'renewed'
    fields[1], fields[2] = id, terms
  end
end
if word == 'renewed' then longest, longest_next = max(longest, lease_us), max(longest_next, lease_us) end
-- include promote
-- include commit
-- include answer: the script ends
