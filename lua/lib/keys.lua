-- keys: the keys of one lock, in the order in which every script declares them, and the forms of what is packed.
-- SETS: call max min lock waiters VERSION CLIENT_OF BAD_ID BAD_TEXT SESSION MEMORY SEAT
-- SETS: LEASE LIVENESS CHANNEL SECRET LABEL OWNER HISTORY PAST PAST_MS HOUR_US DAY_US SLACK_US may
-- SETS: joining lenient
local call, max, min = redis.call, math.max, math.min -- a local is found faster
local lock, waiters = KEYS[1], KEYS[2]
local VERSION = 2 -- of the layout
-- The client of an id. Fields with other names must not be taken for ids: `` has the state, `CLIENT.` a session.
local CLIENT_OF, BAD_ID = '^([^.]+)%.%d+$', 'ERR an id must be CLIENT.NUMBER'
local SESSION = '<ddd' -- until when the client counts as alive, how many waiters it has, its heartbeat interval
-- What clients keep and send back: VERSION, then epoch stamp token longest pace, or epoch ticket token.
local MEMORY, SEAT, BAD_TEXT = '<Bddddd', '<Bddd', 'ERR a memory or seat is not one that a script of this layout gave'
local LEASE, LIVENESS, CHANNEL, SECRET, LABEL, OWNER = 1, 2, 3, 4, 5, 6 -- the places of an entry's values
-- The key of the history ends with this instead of `lock`. It is not declared: a slot that is migrating refuses a
-- request that names a key which is not there, and most locks have no history.
local HISTORY, PAST, PAST_MS = 'history', '1000', '604800000' -- how many grants it has, and how long it lives unused
local HOUR_US, DAY_US = 3600000000, 86400000000
local SLACK_US = HOUR_US / 12 -- the least time between two TTLs of a lock in use
local may = redis.acl_check_cmd -- whether the user has a right; Redis 6 cannot be asked
-- Only an acquire sets these: whether it may add a waiter, and whether the script goes on when memory is short.
local joining, lenient = false, true
