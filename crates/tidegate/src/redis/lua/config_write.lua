-- Writes to one shard of the config store: the values, and an entry of the log for each.
--
-- KEYS[1]  a hash: "<version> <value>" by key
-- KEYS[2]  a sorted set: the same keys, all with score 0, for scans in byte order
-- KEYS[3]  a stream: the log. The id of an entry is "<version>-0". Field k is the key, field p the version of the entry
--          before it, or 0
-- KEYS[4]  a hash: the state of the shard. `clock`: all later versions are greater. `start`: the log is complete
--          from this version on
-- ARGV[1]  the number of the shard: see config_version.lua
-- ARGV[2]  a version that the caller has seen: all versions of this call are greater
-- ARGV[3]  about how many entries the log keeps
-- ARGV[4]  and on, four for each write:
--          key
--          condition   "" always, "-" if the key has no value, or the version that its value must have
--          op          "put" or "delete"
--          value       empty for "delete"
--
-- Reply    one for each write: the version; or, if the condition does not hold, minus the version of the current value,
--          or nil if there is none. A value without a version counts as version 0.
--
-- All keys are read before the first write, and Redis checks its memory at the first write only. So a key of the wrong
-- type or a lack of memory stops the whole call, and nothing of it is written.

local values, keys, log, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stored_state = redis.call('HMGET', state, 'clock', 'start')
local clock, start = tonumber(stored_state[1] or 0) or 0, stored_state[2]
redis.call('ZCARD', keys)
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
-- Greater than the last entry even if the state was deleted: the log refuses smaller ids.
local previous = last and entry_version(last) or 0
local version = math.max(clock, previous, tonumber(ARGV[2]))

local reply, is_changed = {}, false
for at = 4, #ARGV, 4 do
  local key, condition, op, value = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local stored = redis.call('HGET', values, key)
  local current = stored and (string.match(stored, '^(%d+) ') or '0')
  if condition == '' or condition == '-' and not stored or condition == current then
    version = version_after(version)
    if op == 'put' then
      redis.call('HSET', values, key, text(version) .. ' ' .. value)
      redis.call('ZADD', keys, 0, key)
    else
      redis.call('HDEL', values, key)
      redis.call('ZREM', keys, key)
    end
    redis.call('XADD', log, 'MAXLEN', '~', ARGV[3], text(version) .. '-0', 'k', key, 'p', text(previous))
    previous, is_changed = version, true
    -- Without a state, this shard is new or lost its data. Readers that knew it before must read everything again.
    if clock == 0 then clock, start = version, text(version) end
    reply[#reply + 1] = version
  else
    reply[#reply + 1] = current and -tonumber(current)
  end
end
if is_changed then redis.call('HSET', state, 'clock', text(version), 'start', start or '0') end
return reply
