-- inspect: the holders and the waiters, a page at a time. It writes nothing.
-- KEYS: lock
-- ARGV: after count tell_from tell_most
--   after: the last ticket of the previous page, 0 for the first page · count: waiters on a page
--   tell_from: the slot after the last one of the previous page, 0 for the first page · tell_most: holders on a page
-- REPLY: state epoch grants token holders page
--   holders: lib/tell_holders.lua · page: an array of {id, ticket, label, owner, waited_us, alive, most}
local after, count, tell_from, tell_most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
-- include keys
-- include begin
-- include plan
-- include leases
-- include sweep
-- include clear

local client, word, own_pace = '', 'state', 0
-- include tell_holders → holders
local page = {}
if waiting > 0 and not lost then
  local found_waiters = call('ZRANGEBYSCORE', waiters, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
  for i = 1, #found_waiters, 2 do
    its_id = found_waiters[i]
    local ticket, entry = tonumber(found_waiters[i + 1]), call('HGET', lock, its_id)
    local _, _, _, _, _, most = struct.unpack(TERMS, entry)
    -- include texts: entry → label, owner
    -- include session: its_id → alive_until
    page[#page + 1] = {its_id, ticket, label, owner, max(raw - ticket, 0), alive_until > now and 1 or 0, min(most, HUGE)}
  end
end
local told = {'page', page, 'holders', holders, 'grants', grants, 'token', token, 'epoch', epoch}
-- include answer: the script ends
