-- plan: scripts read first and only plan their writes. What `holder`, `held` and the state become is planned by setting
-- them; the rest stands here.
local contender, place, entry, ends -- who asks for the lock: at which place, with what, and until when it would hold it
local queued, joins -- whether it stands in the queue already, and whether it stays there if it is not granted the lock
local prolonged, prolonged_until -- whose session is prolonged, and until when
local leaving = {} -- who leaves the queue, a list and a set
local new_entries, messages = {}, {}
local ended = {} -- sessions that go because they have ended
local again = false -- whether the batch limit was reached: the caller asks again

local function put_entry(id, its_entry)
  new_entries[#new_entries + 1] = id
  new_entries[#new_entries + 1] = cmsgpack.pack(its_entry)
end
