-- acquire: take the lock, or join its queue, or return to it with the ticket of before. Sending it twice changes nothing.
-- KEYS: queue sessions leases entries state
-- ARGV: id wait claim lease_us liveness_us buffer_us heartbeat_us channel label owner ticket epoch floor left_us
--   wait: 1 join the queue, 0 only try · claim: 1 grant no more than a claim · ticket: 0 for a new one
--   epoch: under which the ticket was confirmed, 0 for none · left_us: what the caller knows of the current lease
-- REPLY: granted left_us | queued ticket rank | busy [held_id held_token held_label held_owner held_us] | refused
local id, wait, claim, lease_us, liveness_us, buffer_us, heartbeat_us, channel, label, owner, ticket, their_epoch, floor, left_us =
  unpack(ARGV)
local client = client_of(id)
lease_us, liveness_us, ticket = tonumber(lease_us), tonumber(liveness_us), tonumber(ticket)

if not restore(tonumber(their_epoch), ticket, stamp, tonumber(floor), liveness_us, tonumber(left_us)) then
  return answer('refused', client)
end
if holder == id and (not held or held[CUT]) then
  -- It was granted before data was lost; what came after it is not known. The waiter returns to its place.
  drop_lease()
end
if epoch == 0 then epoch = next_stamp() end

local place = waiting > 0 and tonumber(redis.call('ZSCORE', queue, id) or nil) -- none for one who is not in the queue
if holder ~= id then
  local entry = {lease_us, liveness_us, channel, label, owner}
  local ends = now + lease_us
  if claim == '1' then ends = math.min(ends, now + liveness_us) end
  if wait == '0' then
    promote()
    if holder == '' and waiting == 0 and now >= recover_until then grant(id, entry, ends) end
  else
    local queued = place
    place = place or (ticket > 0 and ticket) or next_stamp()
    -- Its client is alive, and so are the others of it that wait.
    if waiting > 0 then refresh(client, liveness_us, tonumber(buffer_us), tonumber(heartbeat_us)) end
    promote(id, place, entry, ends, queued)
    if holder ~= id then
      if not prolonged then refresh(client, liveness_us, tonumber(buffer_us), tonumber(heartbeat_us)) end
      if not queued then
        waiting = waiting + 1
        joined, joined_at = id, place
      end
      put_entry(id, entry) -- also for one who stands in the queue: its entry may have been lost
    end
  end
end
commit()

if holder == id then return answer('granted', client, 'left_us', holder_end - now, 'granted_token', held[TOKEN]) end
if wait == '1' then return answer('queued', client, 'ticket', place, 'rank', redis.call('ZRANK', queue, id)) end
if not held then return answer('busy', client) end
return answer('busy', client, 'held_id', holder, 'held_token', held[TOKEN], 'held_label', held[LABEL],
  'held_owner', held[OWNER], 'held_us', math.max(raw - held[TOKEN], 0))
