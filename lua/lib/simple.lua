-- simple: whether there is no more to do than to grant a free lock, or to free it: nobody waits, nothing was lost, no
-- clock was set back, no recovery is open, and no history is recorded.
-- NEEDS: memory seat known_epoch known_stamp known_token seat_epoch seat_ticket seat_token
-- NEEDS: raw now waiting recorded recover_until grants stamp token epoch ttl_until
-- SETS: simple spare_us
-- A lost key was given a new stamp, which is not below `raw`.
local simple = waiting == 0 and grants > 1 and recorded == 0 and now >= recover_until and stamp < raw
  and (memory == '' or known_epoch == epoch and known_stamp <= stamp and known_token <= token)
  and (seat == '' or seat_epoch == epoch and seat_ticket <= stamp and seat_token <= token)
local spare_us = ttl_until - raw - DAY_US -- for how much longer than an idle lock needs it the keys live
