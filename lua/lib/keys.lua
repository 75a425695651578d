-- The keys of one lock, in the order in which every script declares them.
local queue, sessions, leases, entries, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
