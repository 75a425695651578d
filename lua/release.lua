-- release: the holder gives the lease back; the next waiter is granted the lock in the same step.
-- KEYS: queue sessions leases entries state
-- ARGV: id token liveness_us epoch floor pace_us
--   token: of the lease, 0 if it is not known · epoch floor pace_us: see lib/restore.lua
-- REPLY: released | expired | left | unknown
--   expired: the lease was over already · left: it only stood in the queue · unknown: neither
local id, their_token, liveness_us, their_epoch, floor, pace_us = unpack(ARGV)
their_token, liveness_us = tonumber(their_token), tonumber(liveness_us)
their_epoch, floor, pace_us = tonumber(their_epoch), tonumber(floor), tonumber(pace_us)
-- include begin
local brought, last, last_token, left_us = their_token, token, their_token, 0
-- include restore

local client, word, told = client_of(id), 'unknown', {}
local newest = their_token > 0 and their_token >= token -- no later grant is known
-- include give_up
if believed and newest and now < recover_until then
  -- The recovery waited for this lease. What remains is for the waiters to return to their places.
  token = math.max(token, their_token + 1)
  stamp = math.max(stamp, token)
  local ends_by = recover_until - recover_for + math.max(liveness_us, 3 * math.max(pace, pace_us))
  -- include cut_short
  if word == 'unknown' then word = 'released' end
end
-- include promote
local lenient = true
-- include commit
-- include answer
