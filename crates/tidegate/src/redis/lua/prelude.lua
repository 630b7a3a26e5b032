-- Tidegate's script for Redis and Valkey: whole plans, several at a time, decided in one call.
--
-- The script is these files, joined in this order: prelude, gcra, gcra_wide, token_bucket, leaky_bucket, fixed_window,
-- sliding_window, ledger, sliding_log, sub_windows, concurrency, nothing, main. It is loaded once and called by hash.
--
-- Lua looks at states, decides who is admitted and writes new states. It reports nothing: it replies with the states it
-- saw and the time it used, and the caller plays the plans on them with the core's own algorithms. So what remains, when
-- to retry and how long to wait is worked out in one place only.
--
-- KEYS     Every key that the plans touch, once. All are strings, so one MGET reads them, and each that changes is
--          written once, at the end, however many plans changed it.
-- ARGV[1]  Empty: the time is that of Redis. Tests hand in "<microseconds> <milliseconds>" instead: the time, and what is
--          added to every expiry, since Redis expires keys by its own clock.
-- ARGV[2]  The plans, in groups: see main.lua.
-- ARGV[3]  and on: the terms, each a limit with a cost. See the file of each algorithm for its layout.
--
-- Reply    { time in microseconds, states, admitted, errors }
--          states    for each of KEYS what it held before the call, nil if nothing. One that is not a string is "!type".
--          admitted  integers of 32 bits: plan p, from 0, was admitted if bit p % 32 of integer p / 32 is set.
--          errors    plan, place in KEYS, plan, place in KEYS, ...: plans that changed nothing because what that key
--                    holds cannot be read. Left out if there are none.
--
-- A term begins with two bytes, the algorithm's number and flags:
--   1  looks on: it never denies, and is charged if the plan is admitted, whether it fits or not
--   2  counts denied attempts
--   4  costs nothing
-- What follows are doubles, little-endian, all of them whole and below 2^53 unless said otherwise.
--
-- Numbers in Lua 5.1 are doubles. Sums and differences of integers below 2^53 are exact, and so are a % b and
-- floor(a / b), since a quotient that is not whole is further from the next whole number than rounding takes it.

-- Everything is a local, for these are found without a look-up by name. Functions are made anew in every call, so each
-- algorithm is one function that makes the others when it is needed.
local floor, tonumber, byte, sub, format = math.floor, tonumber, string.byte, string.sub, string.format
local pack, unpack_bytes, call = struct.pack, struct.unpack, redis.call

local US_PER_MS = 1000
local EXACT_MAX = 2 ^ 53
-- A cost beyond every limit. The caller hands in no larger one, and a count that gets there goes no further.
local UNITS_END = 2 ^ 40
-- An expiry 285,000 years ahead is as good as any later one, and Redis can hold it.
local EXPIRES_MS_MAX = 2 ^ 53

-- By an algorithm's number, the function that makes what its terms are read with.
local define = {}

local now_us, expiry_shift_ms
if ARGV[1] == '' then
  local time = call('TIME')
  now_us, expiry_shift_ms = time[1] * 1000000 + time[2], 0
else
  local us, shift = string.match(ARGV[1], '^(%d+) (%-?%d+)$')
  now_us, expiry_shift_ms = tonumber(us), tonumber(shift)
end

-- The first whole millisecond that is not before an instant. A key that expires then is there for as long as a state
-- matters that ends at that instant.
local function ceil_ms(us)
  return floor((us + (US_PER_MS - 1)) / US_PER_MS)
end
