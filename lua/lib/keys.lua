-- keys: the keys of one lock, and the forms of what is packed.
-- SETS: call max min string struct lock VERSION BAD_ID LONGEST_ID DOT SLOT LEASE FREE HUGE SESSION MEMORY MEMORY_SIZE
-- SETS: SEAT SEAT_SIZE BAD_TEXT TERMS TEXTS TEXTS_AT BAD_TERMS BAD_MOST BAD_TIMES OWN REPLY KEEP_US HISTORY PAST
-- SETS: PAST_MS HOUR_US DAY_US SHORTEST_US LONGEST_US LAST SLACK_US CALM MARK joining lenient seat_epoch seat_ticket
-- SETS: seat_token seat_slot seat_most
-- A local is found faster. Constants are no locals in the script that is sent: their values stand in their places.
local call, max, min, string, struct = redis.call, math.max, math.min, string, struct
-- Only the first key is declared: a slot that is migrating refuses a request that names a key which is not there, and
-- the queue is there only while somebody waits. The names of the others end with another word than `lock`.
local lock = KEYS[1]
local VERSION = 5 -- of the layout
-- Fields with other names must not be taken for ids: `` has the state, `CLIENT.` a session, `#` and two bytes the lease
-- of a slot.
local BAD_ID, LONGEST_ID = 'ERR an id must be CLIENT.NUMBER of at most 1000 bytes', 1000
local DOT = 46 -- the byte
-- The field of a slot, and its lease: most claim broken end token ticket id. That of slot 0 is in the state, so that a
-- lock has one field.
local SLOT, LEASE = '<c1H', '<HBBdddHc0'
local FREE = '\0\0\0\0' -- the tag of a free slot (lib/tag.lua)
local HUGE = 1000 -- no more hold together, whatever they ask for: a script may look at all of them
-- The state of a calm lock: VERSION, 1, epoch stamp seen skew grants longest longest_next recover_from ttl_until, and
-- the field of the id that took it last: this mark and the id. While the id holds the lock, its entry is there.
local CALM, MARK = '<BBdddddddddHc0', '@'
local SESSION = '<ddd' -- until when the client counts as alive, how many waiters it has, its heartbeat interval
-- What clients keep and send back: VERSION, then epoch stamp token longest pace, or epoch ticket token slot most. Of
-- all that is packed, what stands behind the bytes that a script knows was added by a later version, and is passed
-- over.
local MEMORY, MEMORY_SIZE, SEAT, SEAT_SIZE = '<Bddddd', 41, '<BdddHH', 29
local BAD_TEXT = 'ERR a memory or seat is not one that a script of this layout gave'
-- What a client asks for, and the second half of it: see lib/terms.lua and lib/texts.lua.
local TERMS, TEXTS, TEXTS_AT = '<dddddHBBHHH', '<BHHH', 44
local BAD_TERMS, BAD_MOST = 'ERR the texts in terms are shorter than they say', 'ERR most must be at least 1'
local BAD_TIMES = 'ERR times must be whole microseconds up to 30 days, and a lease or liveness at least 50 ms'
-- A lease or place of the client that asks, as the reply tells it: flags (1: it is a claim), its id, its seat, and what
-- is left of the lease.
local OWN = '<BHc0BBdddHHd'
-- A reply (lib/answer.lua), and for how long at most a client keeps the memory in it: an idle lock is forgotten after
-- an hour.
local REPLY, KEEP_US = '<Bc0BddddddBBdddddHc0Ic0', 3000000000
-- The history: what its key ends with, how many grants it has, and how long it lives unused.
local HISTORY, PAST, PAST_MS = 'history', '1000', '604800000'
local HOUR_US, DAY_US = 3600000000, 86400000000
local LONGEST_US = 2592000000000 -- 30 days: no lease is longer, and no other time
local SHORTEST_US = 50000 -- no lease is asked for that is shorter, and no liveness
local LAST = 9007199254740992 -- 2^53: no token is as high
local SLACK_US = 300000000 -- five minutes: the least time between two TTLs of a lock in use
-- Only an acquire sets these: whether it may add a waiter, and whether the script goes on when memory is short.
local joining, lenient = false, true
-- The place or lease that the client brings, if it brings one (lib/known.lua).
local seat_epoch, seat_ticket, seat_token, seat_slot, seat_most = 0, 0, 0, 0, 0
