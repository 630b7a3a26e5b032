-- Reads the log of one shard of the config store, and raises its clock.
--
-- KEYS[1]  the log, and
-- KEYS[2]  the state of the shard: see config_write.lua
-- ARGV[1]  the number of the shard: see config_version.lua
-- ARGV[2]  the version after which to read: the caller was told that this shard's clock has reached it. 0 for a caller
--          that knows nothing yet
-- ARGV[3]  how many entries to return at most
-- ARGV[4]  raise the clock to this version at least; 0 to leave it
-- ARGV[5]  the version of the last entry of this shard that the caller has read, or 0
--
-- Reply    one list: clock, start, 1 if entries are missing or else 0, then for each entry its id and its key
--
-- The clock is the promise to readers: all entries up to it are in this reply or in earlier ones. A reader raises the
-- clocks of shards that lag behind, so that one number is enough to continue in all shards. If writes are refused
-- (out of memory), the clock stays as it is, and the reader gets the same entries again.
--
-- Data was lost if the clock or the entry that the caller knows is gone. Then `start` moves up, so that all other readers
-- notice the loss too: the clock alone would soon look right again.

local log, state = KEYS[1], KEYS[2]
local since, entries_max = tonumber(ARGV[2]), tonumber(ARGV[3])
local raise_to, seen = tonumber(ARGV[4]), tonumber(ARGV[5])

local stored_state = redis.call('HMGET', state, 'clock', 'start')
local clock, start = tonumber(stored_state[1] or 0) or 0, tonumber(stored_state[2] or 0) or 0
local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
-- The newest entry that was trimmed away.
local trimmed = first and tonumber(first[2][4] or 0) or 0

local is_known_gap = since > 0 and start > since or trimmed > since
local is_lost = since > clock
if seen > 0 and (not first or seen >= entry_version(first)) then
  local id = ARGV[5] .. '-0'
  is_lost = is_lost or #redis.call('XRANGE', log, id, id) == 0
end

local new_clock, new_start = clock, start
if is_lost and not is_known_gap or clock == 0 and raise_to > 0 then
  -- A shard without a state may be new or may have lost it. The new clock is above all versions that readers know.
  new_clock = version_after(math.max(clock, raise_to))
  new_start = new_clock
elseif raise_to > clock then
  new_clock = raise_to
end
if new_clock > clock then
  local reply = redis.pcall('HSET', state, 'clock', text(new_clock), 'start', text(new_start))
  if type(reply) ~= 'table' then
    clock, start = new_clock, new_start
  elseif not (string.find(reply.err, 'OOM') or string.find(reply.err, 'MISCONF') or string.find(reply.err, 'NOREPLICAS')) then
    return reply
  end
end

local reply = { clock, start, (is_known_gap or is_lost) and 1 or 0 }
if entries_max > 0 then
  for _, entry in ipairs(redis.call('XRANGE', log, '(' .. ARGV[2] .. '-0', '+', 'COUNT', entries_max)) do
    reply[#reply + 1] = entry[1]
    reply[#reply + 1] = entry[2][2]
  end
end
return reply
