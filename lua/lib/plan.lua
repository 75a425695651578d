-- plan: scripts read first and only plan their writes. The new holder and numbers are planned by setting the variables;
-- all other plans are declared here.
-- SETS: contender asked asked_us place ends queued joins moves sessions leaving fields messages
-- SETS: BATCH looked its_id session alive_until head head_ticket head_until again ended_how
local contender, asked, asked_us, ends -- the asking id, its terms, its lease, and when that would end
local place = math.huge -- the contender's ticket; a try comes after all waiters
-- Its ticket in the queue, if it has one; whether it queues unless it is granted the lock; whether its place is new.
local queued, joins, moves
local sessions = {} -- by client, as planned: {until when it counts as alive, how many waiters it has, its heartbeat}
local leaving = {} -- the ids that leave the queue, a list and a set
local fields, messages = {}, {} -- entries to write, and messages to publish
local BATCH = 100 -- the most waiters that one script examines, so that its work is bounded
local looked = 0 -- how many were
local its_id, session, alive_until -- the waiter that was examined last, and its client's session
local head, head_ticket, head_until -- the first live waiter among them
local again = false -- whether the batch limit was reached, so that the caller asks again
local ended_how = 'lost' -- how the lease ended that this script ends
