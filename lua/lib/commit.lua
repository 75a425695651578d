-- commit: decides what the plan leaves of the lock, makes the writes, and then sends messages.
do
  -- include decide
  -- include write
  -- include publish
end
