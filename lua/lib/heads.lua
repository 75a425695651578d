-- heads: finds the first live waiter before `place`. Dead ones before it leave the queue.
-- NEEDS: place now silent_from silent_until sessions leaving
-- SETS: looked head head_terms head_ticket head_until sessions leaving waiting again
do
  local page, from, at = {}, 0, 1
  while not head and waiting > 0 and looked < BATCH do
    if at > #page then
      -- The first waiter is nearly always alive.
      page = call('ZRANGE', waiters, from, from == 0 and 0 or BATCH - 1, 'WITHSCORES')
      from, at = from + #page / 2, 1
    end
    local its_id, its_ticket = page[at], tonumber(page[at + 1])
    if not its_id or its_ticket >= place then break end
    at, looked = at + 2, looked + 1
    if not leaving[its_id] then
      local its_client = string.match(its_id, CLIENT_OF)
      local entry, packed = unpack(call('HMGET', lock, its_id, its_client .. '.'))
      local session = sessions[its_client] or {struct.unpack(SESSION, packed)}
      sessions[its_client] = session
      -- include alive
      if alive_until > now then
        head, head_terms, head_ticket, head_until = its_id, cmsgpack.unpack(entry), its_ticket, alive_until
      else
        leaving[#leaving + 1], leaving[its_id], waiting = its_id, true, waiting - 1
      end
    end
  end
  again = not head and looked == BATCH and waiting > 0
end
