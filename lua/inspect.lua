-- inspect: who holds the lock and who waits, a page at a time. It writes nothing.
-- KEYS: queue sessions leases entries state
-- ARGV: after count
--   after: the last ticket of the page before, 0 for the first · count: waiters on a page
-- REPLY: state [held_id held_token held_label held_owner held_us held_broken] page {id, ticket, label, owner, waited_us, alive}...
local after, count = ARGV[1], ARGV[2]

local reply = answer('state', '')
if held then
  local holding = {'held_id', holder, 'held_token', held[TOKEN], 'held_label', held[LABEL], 'held_owner', held[OWNER],
    'held_us', math.max(raw - held[TOKEN], 0), 'held_broken', held[BROKEN] and '1' or '0'}
  for i = 1, #holding do reply[#reply + 1] = holding[i] end
end
local page = {}
local found_here = redis.call('ZRANGEBYSCORE', queue, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
for i = 1, #found_here, 2 do
  local id, ticket = found_here[i], tonumber(found_here[i + 1])
  local entry = entry_of(id) or {0, 0, '', '', ''}
  page[#page + 1] = {id, ticket, entry[LABEL], entry[OWNER], math.max(raw - ticket, 0),
    tonumber(redis.call('ZSCORE', sessions, client_of(id)) or 0) > now and '1' or '0'}
end
reply[#reply + 1] = 'page'
reply[#reply + 1] = page
return reply
