-- alive: until when the client of `session` counts as alive. After a silence of more than two of its heartbeats, which
-- may have been an outage, a client that was alive before has the time for one more.
-- NEEDS: session silent_from silent_until
-- SETS: alive_until
do
  local beat = session[3]
  alive_until = session[1]
  if alive_until > silent_from and silent_until - silent_from > 2 * beat then
    alive_until = max(alive_until, silent_until + beat)
  end
end
