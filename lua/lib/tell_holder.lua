-- tell_holder: the holder of the lock, for people.
-- NEEDS: holder holder_token claim raw told
-- SETS: told
if holder ~= '' then
  local entry = call('HGET', lock, holder)
  -- include texts: entry → label, owner
  told = {'held_id', holder, 'held_token', holder_token, 'held_label', label, 'held_owner', owner,
    'held_us', max(raw - holder_token, 0), 'held_claim', claim} -- a token is the time of its grant
end
