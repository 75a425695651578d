-- release: the holder releases the lease; the next waiter is granted the lock in the same script.
-- KEYS: lock waiters
-- ARGV: id token liveness_us epoch floor longest_us last_token pace_us
--   token: of the lease, 0 if it is not known · epoch floor longest_us last_token pace_us: see lib/restore.lua
-- REPLY: released | expired | left | unknown
--   expired: the lease was over already · left: the id was only in the queue · unknown: neither
local id, their_token, liveness_us, their_epoch, floor, longest_us, last_token, pace_us = unpack(ARGV)
their_token, liveness_us = tonumber(their_token), tonumber(liveness_us)
their_epoch, floor, longest_us = tonumber(their_epoch), tonumber(floor), tonumber(longest_us)
last_token, pace_us = tonumber(last_token), tonumber(pace_us)
-- include keys
local client = string.match(id, CLIENT_OF)
if not client then return redis.error_reply(BAD_ID) end
local found, own_entry = unpack(call('HMGET', lock, '', id))
local joining = false
-- include begin
local brought, last, left_us = their_token, token, longest_us
-- include restore

local word, told = 'unknown', {}
local newest = their_token > 0 and their_token >= token -- no later grant is known
-- include give_up
if gave_up then word = gave_up end
if believed and newest and now < recover_until then
  -- The recovery waited for this lease. What remains is the time for the waiters to return to their places.
  token = max(token, their_token + 1)
  stamp = max(stamp, token)
  -- include cut_short
  if word == 'unknown' then word = 'released' end
end
-- include promote
local lenient = true
-- include commit
-- include answer
