-- session: the session of the client of a waiter, as it is planned, and until when that client counts as alive. After a
-- silence of more than two of its heartbeats, which may have been an outage, a client that was alive before has the
-- time for one more.
-- NEEDS: its_id sessions silent_from silent_until
-- SETS: session sessions alive_until
do
  local its_client = string.match(its_id, CLIENT_OF)
  session = sessions[its_client] or {struct.unpack(SESSION, call('HGET', lock, its_client .. '.'))}
  sessions[its_client] = session
  alive_until = session[1]
  if alive_until > silent_from and silent_until - silent_from > 2 * session[3] then
    alive_until = max(alive_until, silent_until + session[3])
  end
end
