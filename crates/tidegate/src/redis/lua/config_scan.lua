-- Reads entries of one shard of the config store, in the byte order of their keys.
--
-- KEYS[1]  the values, and
-- KEYS[2]  the keys: see config_write.lua
-- ARGV[1]  where to begin and
-- ARGV[2]  where to end, as ZRANGEBYLEX takes them
-- ARGV[3]  how many entries to return at most
-- ARGV[4]  how many bytes of values to return: no further entry is added after that many
--
-- Reply    one list: 1 if there are more entries or else 0, then for each entry its key and what is stored for it. A key
--          without a value, which no write leaves behind, has an empty one.

local values, entries_max, bytes_left = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local found = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, entries_max + 1)
local reply = { 0 }
for at, key in ipairs(found) do
  if at > entries_max or bytes_left <= 0 then
    reply[1] = 1
    break
  end
  local stored = redis.call('HGET', values, key) or ''
  reply[#reply + 1] = key
  reply[#reply + 1] = stored
  bytes_left = bytes_left - #stored
end
return reply
