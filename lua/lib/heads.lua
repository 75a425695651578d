-- heads: finds the first live waiter before `place`. Dead ones before it leave the queue.
-- NEEDS: place now sessions leaving
-- SETS: looked its_id head head_ticket head_until head_beat leaving waiting again
while not head and waiting > 0 and looked < BATCH do
  local at_rank = looked == 0 and '0' or looked -- to make a text of a number costs as much as a small command
  local found_id, its_ticket = unpack(call('ZRANGE', waiters, at_rank, at_rank, 'WITHSCORES'))
  its_id, its_ticket = found_id, tonumber(its_ticket)
  if not its_id or its_ticket >= place then break end
  looked = looked + 1
  if not leaving[its_id] then
    -- include session: its_id → alive_until
    if alive_until > now then
      head, head_ticket, head_until, head_beat = its_id, its_ticket, alive_until, session[3]
    else
      leaving[#leaving + 1], leaving[its_id], waiting = its_id, true, waiting - 1
    end
  end
end
again = not head and looked == BATCH and waiting > 0
