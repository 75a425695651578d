-- plan: scripts read first and only plan their writes. Leases and numbers are planned by changing them; all other plans
-- are declared here. A lease ends when its `ends` is not after `now`; `how` says how, if it did not expire.
-- SETS: contender asked asked_us asked_most ends place queued joins moves sessions leaving fields messages
-- SETS: named every ended dropped
-- SETS: BATCH GRANTS looked its_id session alive_until head head_ticket head_until head_beat numbers position own again
-- The asking id until it is granted the lock, its terms, its lease, how many may hold, and when its lease would end.
local contender, asked, asked_us, asked_most, ends
local place = math.huge -- the contender's ticket; a try comes after all waiters
-- Its ticket in the queue, if it has one; whether it queues unless it is granted the lock; whether its place is new.
local queued, joins, moves
local sessions = {} -- by client, as planned: {until when it counts as alive, how many waiters it has, its heartbeat}
local leaving = {} -- the ids that leave the queue, a list and a set
local fields, messages = {}, {} -- entries to write, and messages to publish
local named, every -- the ids whose leases are read, and whether all are
local ended = {} -- the leases that ended in this script
local dropped = false -- whether the leases that are found are from before a loss of data
local BATCH = 100 -- the most waiters that one script examines, so that its work is bounded
local GRANTS = 16 -- the most grants by message, for the same reason
local looked = 0 -- how many were examined
local its_id, session, alive_until -- the waiter that was examined last, and its client's session
local head, head_ticket, head_until, head_beat -- the first live waiter among them, and the heartbeat of its client
local numbers -- the state, packed
-- What the reply tells of the client that asks: the position of a waiter, and its leases and places.
local position, own = 0, {}
local again = false -- whether a limit was reached, so that the caller asks again
