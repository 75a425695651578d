-- texts: what an entry has for messages and for people.
--   secret: messages repeat it · tag: in a cluster, the hash tag of the channel that the client hears; else empty
-- NEEDS: entry
-- SETS: secret_size label_size owner_size tag_size secret_at label_at owner_at tag_at secret label owner tag
local secret_size, label_size, owner_size, tag_size, secret_at = struct.unpack(TEXTS, entry, TEXTS_AT)
local label_at = secret_at + secret_size
local owner_at = label_at + label_size
local tag_at = owner_at + owner_size
local secret, label = string.sub(entry, secret_at, label_at - 1), string.sub(entry, label_at, owner_at - 1)
local owner, tag = string.sub(entry, owner_at, tag_at - 1), string.sub(entry, tag_at, tag_at + tag_size - 1)
