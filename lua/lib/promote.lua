-- promote: ends the leases that are over. Then, while one more may hold beside those who do, the first live waiter is
-- granted the lowest free slot, and told by a message. One that does not fit stops all behind it. A contender is alive,
-- and learns of its grant from the reply.
-- NEEDS: contender asked asked_us asked_most place ends queued leaving messages fields
-- SETS: leases token wait_places wait_leases stamp grants longest longest_next generation waiting contender place
-- SETS: queued head its_id again
-- include sweep
while (contender or waiting > 0) and held < limit and now >= recover_until do
  -- include heads: place → head, again
  if again or not head and not contender then break end
  local entry, its_lease, its_most, its_ticket, its_end = asked, asked_us, asked_most, place, ends
  its_id = head or contender
  if head then
    local its_liveness, _
    entry, its_ticket = call('HGET', lock, head), head_ticket
    its_liveness, _, _, its_lease, _, its_most = struct.unpack(TERMS, entry)
    -- A claim: it lasts until its waiter has had a heartbeat to confirm it in, which comes as rarely as those of its
    -- client do, and ends with the session. So processes that died together cost one liveness window, not one each.
    its_most, its_end = min(its_most, HUGE), now + max(its_lease, its_liveness, 3 * head_beat)
    if its_end > now + LONGEST_US then its_end = now + LONGEST_US end
    if its_end > head_until then its_end = head_until end
  end
  if held >= its_most then break end
  if head and #messages == GRANTS then
    again = true
    break
  end
  if head or queued then leaving[#leaving + 1], leaving[its_id], waiting = its_id, true, waiting - 1 end
  stamp = max(raw, stamp + 1)
  token, grants = stamp, grants + 1
  wait_places, wait_leases = 0, 0 -- no later token opens again what is over
  -- If it does not hear of its grant in time, this ticket is its place in the queue again. A try has none: its token
  -- stands in.
  local lowest = ((string.find(tags, FREE, 1, true) or #tags + 1) - 1) / 4
  if holes[1] and holes[1] < lowest then lowest = table.remove(holes, 1) end
  local lease = {slot = lowest, most = its_most,
    claim = (head or its_end < now + its_lease) and 1 or 0, broken = 0, ends = its_end, token = token,
    ticket = min(its_ticket, token), id = its_id, beyond = ''}
  leases[#leases + 1], leases[its_id] = lease, lease
  -- include put: lease
  if lease.ticket > generation then
    -- All who waited before the generation had their turn. Of the leases that they asked for some may last.
    longest, longest_next, generation = max(longest_next, last_end - now), 0, stamp
  end
  longest, longest_next = max(longest, its_lease), max(longest_next, its_lease)
  -- include count: lease
  if head then
    messages[#messages + 1] = {lease, 'grant', entry, its_end - now}
  else
    fields[#fields + 1], fields[#fields + 2] = its_id, entry
  end
  -- A try may find its own id at the head of the queue.
  if its_id == contender then contender, place, queued = nil, math.huge, nil end
  head = nil
end
-- include clear
