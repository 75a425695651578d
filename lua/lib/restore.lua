-- restore: a request that brings a ticket or a lease from before shows whether the server lost data.
-- `mark` is that ticket or token, `their_epoch` the epoch under which the server last confirmed it, `floor` the
-- highest stamp that the client ever saw, `left_us` what it knows of the current lease. False: too absurd to believe.
local ABSURD_US = 86400000000

local function restore(their_epoch, mark, floor, liveness_us, left_us)
  local highest = math.max(their_epoch, mark, floor)
  local absurd = highest > math.max(raw, stamp) + ABSURD_US
  if their_epoch == 0 then
    -- It brings nothing that could show a loss, but what it is given now must be above what it has seen.
    if not absurd then least = floor end
    return true
  end
  if absurd then return false end
  -- What a reply once named was stored: under the same epoch a higher one is proof that it is gone.
  local rolled_back = their_epoch > epoch or (their_epoch == epoch and highest > stamp)
  local made_anew = their_epoch < epoch and recover_until == 0
  stamp = math.max(stamp, highest)
  if not (rolled_back or made_anew) then return true end

  epoch = next_stamp()
  recover_until = math.max(recover_until, now + math.max(liveness_us, left_us))
  if rolled_back and holder ~= '' then
    -- A lease from before the loss may be long over. Its holder, if it still is one, re-asserts it. In a state made
    -- anew the lease was granted after the loss and stays.
    if held then
      held[MARK] = 'cut'
      put_entry(holder, held)
    end
    put_lease(holder, held, math.min(holder_end, recover_until))
  end
  return true
end
