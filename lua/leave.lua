-- leave: waiters give up their places; what was granted to them meanwhile is given back.
-- KEYS: queue sessions leases entries state
-- ARGV: ids...
-- REPLY: left
-- include begin
local client, word, told = '', 'unknown', {}
for i = 1, #ARGV do
  local id = ARGV[i]
  client = client_of(id)
  -- include give_up
end
-- include promote
local lenient = true
-- include commit
word = 'left'
-- include answer
