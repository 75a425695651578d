-- inspect: who holds the lock and who waits, a page at a time. It writes nothing.
-- KEYS: queue sessions leases entries state
-- ARGV: after count
--   after: the last ticket of the page before, 0 for the first · count: waiters on a page
-- REPLY: state [held_id held_token held_label held_owner held_us held_broken] page {id, ticket, label, owner, waited_us, alive}...
local after, count = ARGV[1], ARGV[2]
-- include begin

local page = {}
local waiters = redis.call('ZRANGEBYSCORE', queue, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
for i = 1, #waiters, 2 do
  local id, ticket = waiters[i], tonumber(waiters[i + 1])
  local its_entry = entry_of(id) or {0, 0, '', '', '', ''}
  local alive_until = tonumber(redis.call('ZSCORE', sessions, client_of(id)) or 0)
  page[#page + 1] = {id, ticket, its_entry[LABEL], its_entry[OWNER], math.max(raw - ticket, 0), alive_until > now and '1' or '0'}
end
local client, word, told = '', 'state', {'page', page}
if held then
  told = {'held_id', holder, 'held_token', held[TOKEN], 'held_label', held[LABEL], 'held_owner', held[OWNER],
    'held_us', math.max(raw - held[TOKEN], 0), 'held_broken', held[BROKEN] and '1' or '0', 'page', page}
end
-- include answer
