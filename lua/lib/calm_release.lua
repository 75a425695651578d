-- calm_release: ends the lease of the id that took a calm lock, if nothing has happened since. Its client may do the same
-- without a script.
-- NEEDS: calm found memory id client position own owns
if calm == 1 then
  -- include in_touch
  if in_touch and taken_field == MARK .. id and redis.pcall('HDEL', lock, taken_field) == 1 then
    local now, word, told, leases, named, messages, again, waiting, held = seen, 'released', nil, '', '', '', false, 0, 0
    local token, pace, recover_pace, own_pace, first_end = stamp, 0, 0, known_pace, 0
    -- include answer: the script ends
  end
end
