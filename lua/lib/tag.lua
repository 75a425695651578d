-- tag: the tag of a slot, made from the id of its lease: the first two bytes of its client, and the last three of the
-- id, so that neither the leases of one client nor those of clients with low numbers have one tag. Its last byte is not
-- zero, so no tag is FREE.
-- NEEDS: of_id
-- SETS: client_1 client_2 last_3 last_2 last_1 tag
local client_1, client_2 = string.byte(of_id, 1, 2)
local last_3, last_2, last_1 = string.byte(of_id, -3, -1)
local tag = string.char(client_1, client_2, last_3, (10 * last_2 + last_1) % 255 + 1)
