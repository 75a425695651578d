-- promote: a free lock is granted to the first live waiter, which is told; the dead before it are purged. A contender is
-- alive, and learns of its grant from the reply.
local BATCH = 100 -- heads looked at in one call, so that work stays bounded

local free = holder == '' and now >= recover_until
if free then
  local grantee, its_place, looked, mine = nil, place, 0, waiting == 0
  local page, from, at = {}, 0, 1
  while not mine and not grantee do
    if at > #page then
      -- The first in the queue is nearly always alive, so the first page is small.
      page = redis.call('ZRANGE', queue, from, math.min(from == 0 and 4 or BATCH, BATCH) - 1, 'WITHSCORES')
      from, at = from + #page / 2, 1
      if #page == 0 then break end
    end
    local head, ticket = page[at], tonumber(page[at + 1])
    mine = contender and ticket >= place
    if not mine then
      at, looked = at + 2, looked + 1
      if not leaving[head] then
        leaving[#leaving + 1], leaving[head], waiting = head, true, waiting - 1
        local its_entry, its_client = entry_of(head), client_of(head)
        local alive_until = prolonged_until
        if its_client ~= prolonged then alive_until = tonumber(redis.call('ZSCORE', sessions, its_client) or 0) end
        if its_entry and alive_until > now then
          -- The claim ends with the session: processes that died together cost one window, not one each.
          grantee, its_place, held = head, ticket, its_entry
          holder_end = math.min(now + held[LEASE], now + held[LIVENESS], alive_until)
        end
      end
    end
  end

  again = not grantee and not mine and looked == BATCH and waiting > 0
  if contender and not grantee and not again then
    grantee, held, holder_end = contender, entry, ends
    if queued then leaving[#leaving + 1], leaving[contender], waiting = contender, true, waiting - 1 end
  end
  if grantee then
    holder, token, grants = grantee, next_stamp(), grants + 1
    longest = math.max(longest, held[LEASE])
    -- Its ticket is its place in the queue again, should it not hear of its grant in time. Who only tries has none.
    held[TOKEN], held[TICKET] = token, math.min(its_place, token)
    put_entry(holder, held)
    if holder ~= contender then
      messages[#messages + 1] = {held, 'grant', holder, holder_end - now}
    end
  end
end

if joins and holder ~= contender then
  if not queued then waiting = waiting + 1 end
  put_entry(contender, entry) -- also of one who stands in the queue: its entry may have been lost
  longest = math.max(longest, entry[LEASE])
end
if free and waiting > 0 then
  local sessions_found = redis.call('ZRANGEBYSCORE', sessions, '-inf', now, 'LIMIT', '0', BATCH)
  for i = 1, #sessions_found do
    if sessions_found[i] ~= prolonged then ended[#ended + 1] = sessions_found[i] end
  end
end
