-- leave: waiters give up their places; what was granted to them meanwhile is given back.
-- KEYS: queue sessions leases entries state
-- ARGV: ids...
-- REPLY: left
for i = 1, #ARGV do give_up(ARGV[i]) end
promote()
commit(true)
return answer('left', client_of(ARGV[1]))
