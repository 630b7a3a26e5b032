-- Versions of the config store. This file comes first in config_write and config_changes.
--
-- ARGV[1]  the number of the shard, from 0 to 15
--
-- A version is the time of the server in units of 10 microseconds, times 16, plus the number of the shard. So no two
-- shards give the same version, versions stay below 2^53 until the year 2148, and a shard that lost its data continues
-- with greater versions.

local SHARDS = 16

-- The next version of this shard that is greater than `floor`, and not in the past.
local function version_after(floor)
  local time = redis.call('TIME')
  local now = math.floor((time[1] * 1000000 + time[2]) / 10) * SHARDS
  local version = math.max(now, floor - floor % SHARDS) + tonumber(ARGV[1])
  if version <= floor then version = version + SHARDS end
  return version
end

local function text(version) return string.format('%.0f', version) end

-- The version of a log entry.
local function entry_version(entry) return tonumber(string.match(entry[1], '^%d+')) end
