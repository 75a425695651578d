-- promote: grants a free lock to the first live waiter and tells it by a message; zombies before it are purged. A contender
-- is alive, and learns of its grant from the reply.
-- NEEDS: client contender terms place ends queued joins sessions leaving fields messages
-- SETS: holder holder_end holder_token holder_ticket broken cut claim token stamp grants longest waiting again
do
  local BATCH = 100 -- the most waiters that one call examines, so that its work is bounded
  if holder == '' and now >= recover_until then
    local grantee, its_terms, its_place, its_end = nil, terms, place, ends
    local looked, my_turn = 0, waiting == 0
    local page, from, at = {}, 0, 1
    while not my_turn and not grantee do
      if at > #page then
        -- The first waiter is nearly always alive.
        page = call('ZRANGE', waiters, from, from == 0 and 0 or BATCH - 1, 'WITHSCORES')
        from, at = from + #page / 2, 1
        if #page == 0 then break end
      end
      local head, its_ticket = page[at], tonumber(page[at + 1])
      my_turn = contender and its_ticket >= place
      if not my_turn then
        at, looked = at + 2, looked + 1
        if not leaving[head] then
          leaving[#leaving + 1], leaving[head], waiting = head, true, waiting - 1
          local its_client = string.match(head, CLIENT_OF)
          local entry, session = unpack(call('HMGET', lock, head, its_client .. '.'))
          sessions[its_client] = sessions[its_client] or {struct.unpack(SESSION, session)}
          local alive_until = sessions[its_client][1]
          if alive_until > now then
            -- The claim ends with the session: processes that died together cost one liveness window, not one each.
            grantee, its_terms, its_place = head, cmsgpack.unpack(entry), its_ticket
            its_end = min(now + its_terms[LEASE], now + its_terms[LIVENESS], alive_until)
          end
        end
      end
    end

    again = not grantee and not my_turn and looked == BATCH and waiting > 0
    if contender and not grantee and not again then
      grantee = contender
      if queued then leaving[#leaving + 1], leaving[contender], waiting = contender, true, waiting - 1 end
    end
    if grantee then
      stamp = max(raw, stamp + 1)
      holder, token, grants = grantee, stamp, grants + 1
      -- If it does not hear of its grant in time, this ticket is its place in the queue again. A try has none: its token
      -- stands in.
      holder_end, holder_token, holder_ticket, broken, cut = its_end, token, min(its_place, token), 0, 0
      claim = its_end < now + its_terms[LEASE] and 1 or 0
      if holder ~= contender then
        messages[#messages + 1] = {its_terms, 'grant', holder, holder_token, holder_ticket, holder_end - now}
      end
    end
  end

  if contender and (joins or holder == contender) then
    fields[1], fields[2] = contender, cmsgpack.pack(terms) -- also of a waiter in the queue, whose terms may have changed
    longest = max(longest, terms[LEASE])
    if holder ~= contender and not queued then
      waiting = waiting + 1
      sessions[client][2] = sessions[client][2] + 1
    end
  end
end
