-- pass_over: in a recovery a lease comes back if no newer token is known. One that was ended on purpose must not.
local function pass_over(of_token)
  token = math.max(token, of_token + 1)
  stamp = math.max(stamp, token)
end
