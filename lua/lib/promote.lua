-- promote: grants a free lock to the first live waiter and tells it by a message. A contender is alive, and learns of
-- its grant from the reply.
-- NEEDS: client contender asked asked_us place ends queued joins sessions leaving fields messages
-- SETS: holder holder_end holder_token holder_ticket broken cut claim token stamp grants
-- SETS: longest longest_next generation waiting
if holder == '' and now >= recover_until then
  -- include heads: place → head, again
  local grantee, its_lease, its_ticket, its_end, entry = contender, asked_us, place, ends, nil
  if head then
    grantee, entry, its_ticket = head, call('HGET', lock, head), head_ticket
    local its_liveness, _, _, its_us = struct.unpack('<dddd', entry)
    its_lease = its_us
    -- A claim: it lasts until its waiter has had a heartbeat to confirm it in, and ends with the session. So
    -- processes that died together cost one liveness window, not one each.
    its_end = min(now + max(its_lease, its_liveness), head_until)
  end
  if grantee and not again then
    if head or queued then leaving[#leaving + 1], leaving[grantee], waiting = grantee, true, waiting - 1 end
    stamp = max(raw, stamp + 1)
    token, grants = stamp, grants + 1
    -- If it does not hear of its grant in time, this ticket is its place in the queue again. A try has none: its
    -- token stands in.
    holder, holder_end, holder_token, holder_ticket = grantee, its_end, token, min(its_ticket, token)
    broken, cut, claim = 0, 0, (head or its_end < now + its_lease) and 1 or 0
    if head then messages[#messages + 1] = {entry, 'grant', head, token, its_ticket, its_end - now} end
    if holder_ticket > generation then
      -- All who came before the generation are gone, and with them the leases that they asked for.
      longest, longest_next, generation = longest_next, 0, stamp
    end
    longest, longest_next = max(longest, its_lease), max(longest_next, its_lease)
  end
end

if contender and (joins or holder == contender) then
  -- Also of a waiter in the queue, whose terms may have changed.
  fields[1], fields[2] = contender, asked
  longest, longest_next = max(longest, asked_us), max(longest_next, asked_us)
  if holder ~= contender and not queued then
    waiting = waiting + 1
    sessions[client][2] = sessions[client][2] + 1
  end
end
