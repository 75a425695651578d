-- bring_back: in a recovery, a lease from before the loss takes its slot again. All leases stand in the order of their
-- tokens, the highest first: one that does not fit beside those before it was over when one of them was granted. So one
-- beside which nobody may hold stands only if nobody knows of a later grant.
-- One that an operator has broken, and that is over, does not come back.
-- NEEDS: id seat_epoch seat_ticket seat_token seat_slot seat_most left_us believed epoch now recover_until leases
-- SETS: its_own brought leases tags token sole leaving waiting
local its_own = leases[id]
local brought = now < recover_until and believed and left_us > 0 and seat_token > 0 and seat_epoch < epoch
  and (seat_most > 1 or seat_token >= token)
  and not (its_own and its_own.token == seat_token and its_own.broken == 1 and not its_own.how)
if brought then
  local lease = {slot = seat_slot, most = seat_most, claim = 0, broken = 0, ends = now + left_us, token = seat_token,
    ticket = seat_ticket, id = id, beyond = ''}
  local line, many, least, used = {lease, unpack(leases)}, 0, HUGE, {} -- used: slots, and ids
  table.sort(line, function(one, other)
    return one.token > other.token or one.token == other.token and other == lease and one ~= lease
  end)
  for i = 1, #line do
    local stands = line[i]
    if stands.ends > now then
      if many < min(least, stands.most) and not used[stands.slot] and not used[stands.id] then
        many, least, used[stands.slot], used[stands.id] = many + 1, min(least, stands.most), true, true
      elseif stands == lease then
        brought = false
      else
        stands.ends, stands.how = now, 'lost'
      end
    end
  end
  if brought then
    for i = 1, #leases do leases[i].replaced = leases[i].slot == seat_slot end
    if waiting > 0 and call('ZSCORE', waiters, id) then leaving[1], leaving[id], waiting = id, true, waiting - 1 end
    tags = tags .. string.rep(FREE, seat_slot - #tags / 4)
    leases[#leases + 1], leases[id] = lease, lease
    -- include put: lease
    token = max(token, seat_token)
    if seat_most == 1 then sole = max(sole, seat_token) end -- there is no other lease
    -- include recovery
  end
end
