-- The scripts as they are sent, in lua/rendered. All parts share the variables of their script.
std = "lua51"
read_globals = {"redis", "KEYS", "ARGV", "cmsgpack", "struct"}
max_line_length = false
-- Parts declare what some scripts do not use, set, or read again.
ignore = {"211", "221", "231", "241", "311"}
