-- keys: the keys of one lock, in the order in which every script declares them, and the form of its fields.
-- SETS: call max min lock waiters CLIENT_OF BAD_ID SESSION LEASE LIVENESS CHANNEL SECRET LABEL OWNER HISTORY PAST PAST_MS
local call, max, min = redis.call, math.max, math.min -- a local is found faster
local lock, waiters = KEYS[1], KEYS[2]
-- The client of an id. Fields with other names must not be taken for ids: `` has the state, `CLIENT.` a session.
local CLIENT_OF, BAD_ID = '^([^.]+)%.%d+$', 'ERR an id must be CLIENT.NUMBER'
local SESSION = '<dd' -- until when the client counts as alive, and how many waiters it has
local LEASE, LIVENESS, CHANNEL, SECRET, LABEL, OWNER = 1, 2, 3, 4, 5, 6 -- the places of an entry's values
-- The key of the history ends with this instead of `lock`. It is not declared: a slot that is migrating refuses a request
-- that names a key which is not there, and most locks have no history.
local HISTORY, PAST, PAST_MS = 'history', '1000', '604800000' -- how many grants it has, and how long it lives unused
