-- plan: scripts read first and only plan their writes. The new holder and numbers are planned by setting the variables;
-- all other plans are declared here.
-- SETS: contender terms place ends queued joins moves sessions leaving fields messages
-- SETS: BATCH looked head head_terms head_ticket head_until alive_until again ended_how ended_entry
local contender, terms, ends -- the asking id, its entry, and when its lease would end
local place = math.huge -- the contender's ticket; a try comes after all waiters
local queued, joins, moves -- whether it is in the queue, whether it queues unless it is granted the lock, with a new place
local sessions = {} -- by client: {until when it counts as alive, how many waiters it has, its heartbeat}, as planned
local leaving = {} -- the ids that leave the queue, a list and a set
local fields, messages = {}, {} -- entries to write, and messages to publish
local BATCH = 100 -- the most waiters that one script examines, so that its work is bounded
local looked = 0 -- how many were
local head, head_terms, head_ticket, head_until = nil, nil, nil, nil -- the first live waiter among them
local alive_until -- of the client that was examined last
local again = false -- whether the batch limit was reached, so that the caller asks again
local ended_how, ended_entry = 'lost', nil -- how the lease ended that this script ends, and its entry if it was read
