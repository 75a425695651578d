-- answer: ends the script with its reply, one packed string, because for Redis an array costs as much as the rest of a
-- script. `own`: of the client that asks, the place that it was given, the leases of the ids that it named, and what
-- this script has granted to it; `told`: names and values for people, in MessagePack.
-- PACKS: word flags position waiting held first_left_us recover_left_us keep_us memory own told
-- NEEDS: now client word told again own_pace position own named messages leases held first_end
-- SETS: for_people own keep_us told_pace
local for_people = told and cmsgpack.pack(told) or ''
for i = 1, client ~= '' and #named + #messages or 0 do
  local lease = i > #named and messages[i - #named][1] or leases[named[i]]
  if lease and lease.ends > now and not lease.told and string.find(lease.id, client, 1, true) == 1
    and string.byte(lease.id, #client + 1) == DOT then
    lease.told = true
    own[#own + 1] = struct.pack(OWN, lease.claim, #lease.id, lease.id, SEAT_SIZE, VERSION, epoch, lease.ticket,
      lease.token, lease.slot, lease.most, lease.ends - now)
  end
end
local keep_us, told_pace = longest < KEEP_US and longest or KEEP_US, pace > wait_places and pace or wait_places
if own_pace > told_pace then told_pace = own_pace end
-- The flags: 1, the client asks again; 2, see lib/calm_grant.lua. A client that has nothing here any more keeps its
-- memory for as long as the longest lease, but not until an idle lock is forgotten.
return struct.pack(REPLY, #word, word, again and 1 or 0, position, waiting, held, held > 0 and first_end - now or 0,
  now < recover_until and recover_until - now or 0, keep_us, MEMORY_SIZE, VERSION, epoch, stamp, token,
  longest, told_pace, #own, own[2] and table.concat(own) or own[1] or '', #for_people, for_people)
