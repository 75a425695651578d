-- bring_back: in a recovery, a lease from before the loss takes its slot again. Of two that cannot be held together the
-- one with the higher token stands: the other was over when that one was granted. So one beside which nobody may hold is
-- over if anybody knows of a later grant.
-- NEEDS: id seat_epoch seat_ticket seat_token seat_slot seat_most left_us believed epoch now recover_until leases
-- SETS: brought leases tags token leaving waiting
local brought = now < recover_until and believed and left_us > 0 and seat_token > 0 and seat_epoch < epoch
  and (seat_most > 1 or seat_token >= token)
if brought then
  table.sort(leases, function(one, other) return one.token > other.token end)
  local many, least, over = 1, seat_most, {}
  for i = 1, #leases do
    local other = leases[i]
    if other.ends > now and brought then
      if other.slot ~= seat_slot and other.id ~= id and many < min(least, other.most) then
        many, least = many + 1, min(least, other.most)
      elseif other.token < seat_token then
        over[#over + 1] = other
      else
        brought = false
      end
    end
  end
  if brought then
    for i = 1, #over do over[i].ends, over[i].how = now, 'lost' end
    for i = 1, #leases do leases[i].replaced = leases[i].slot == seat_slot end
    if waiting > 0 and call('ZSCORE', waiters, id) then leaving[1], leaving[id], waiting = id, true, waiting - 1 end
    tags = tags .. string.rep(FREE, seat_slot - #tags / 4)
    local lease = {slot = seat_slot, most = seat_most, claim = 0, broken = 0, ends = now + left_us, token = seat_token,
      ticket = seat_ticket, id = id, beyond = ''}
    leases[#leases + 1], leases[id] = lease, lease
    -- include put: lease
    if seat_most == 1 and accounted == 0 then
      -- There is no other lease.
      -- include accounted
    end
    token = max(token, seat_token)
  end
end
