-- inspect: the holder and the waiters, a page at a time. It writes nothing.
-- KEYS: lock waiters
-- ARGV: after count
--   after: the last ticket of the previous page, 0 for the first page · count: waiters on a page
-- REPLY: state epoch grants token [held_id held_token held_label held_owner held_us held_claim held_broken] page
--   page: an array of {id, ticket, label, owner, waited_us, alive}
local after, count = ARGV[1], ARGV[2]
-- include keys
-- include state
-- include time
-- include clock

local client, word, told, again, own_pace = '', 'state', {}, false, 0
-- include tell_holder
if holder ~= '' then told[#told + 1], told[#told + 2] = 'held_broken', broken end
local page, sessions, its_id, session, alive_until = {}, {}, nil, nil, nil
if waiting > 0 and not lost then
  local found_waiters = call('ZRANGEBYSCORE', waiters, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
  for i = 1, #found_waiters, 2 do
    its_id = found_waiters[i]
    local ticket, entry = tonumber(found_waiters[i + 1]), call('HGET', lock, its_id)
    -- include texts: entry → label, owner
    -- include session: its_id → alive_until
    page[#page + 1] = {its_id, ticket, label, owner, max(raw - ticket, 0), alive_until > now and 1 or 0}
  end
end
told = {'page', page, 'grants', grants, 'token', token, 'epoch', epoch, unpack(told)} -- the last token granted, or passed over
-- include answer: the script ends
