-- plan: scripts read first and only plan their writes. The new holder and numbers are planned by setting the variables;
-- all other plans are declared here.
-- SETS: contender terms place ends queued joins sessions leaving fields messages again ended_how ended_entry
local contender, terms, place, ends -- the asking id, its entry, its place, and when its lease would end
local queued, joins -- whether it is in the queue already, and whether it queues if it is not granted the lock
local sessions = {} -- by client: {until when it counts as alive, how many waiters it has}, as read or as planned
local leaving = {} -- the ids that leave the queue, a list and a set
local fields, messages = {}, {} -- entries to write, and messages to publish
local again = false -- whether the batch limit was reached, so that the caller asks again
local ended_how, ended_entry = 'lost', nil -- how the lease ended that this script ends, and its entry if it was read
