-- calm_release: ends the lease of the id that took a calm lock, if nothing has happened since. Its client may do the
-- same without a script.
-- NEEDS: calm found memory id
if calm == 1 then
  -- include in_touch
  if in_touch and taken_field == MARK .. id and redis.pcall('HDEL', lock, taken_field) == 1 then
    -- As in lib/answer.lua: nobody waits, and nobody holds the lock.
    return struct.pack(REPLY, 8, 'released', 0, 0, 0, 0, 0, 0, min(longest, KEEP_US), MEMORY_SIZE, VERSION, epoch, stamp,
      stamp, longest, known_pace, 0, '', 0, '')
  end
end
