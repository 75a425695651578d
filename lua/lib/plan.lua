-- plan: scripts read first and only plan their writes. What the holder and the numbers become is planned by setting
-- them; the rest is declared here.
-- SETS: contender terms place ends queued joins sessions leaving fields messages again
local contender, terms, place, ends -- who asks for the lock: its entry, its place, and until when it would hold the lock
local queued, joins -- whether it is in the queue already, and whether it stays there if it is not granted the lock
local sessions = {} -- by client: {until when it counts as alive, how many waiters it has}, as read or as planned
local leaving = {} -- who leaves the queue, a list and a set
local fields, messages = {}, {} -- entries to write, and what is published
local again = false -- whether the batch limit was reached: the caller asks again
