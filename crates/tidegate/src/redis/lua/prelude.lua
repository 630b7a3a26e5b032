-- Tidegate's script for Redis and Valkey: decides whole plans, several per call.
--
-- The script is these files, joined in this order: prelude, gcra, gcra_wide, token_bucket, leaky_bucket,
-- windows, fixed_window, sliding_window, usage_log, sliding_log, sub_windows, concurrency, zero_limit, plans,
-- main. It is loaded once and called by its SHA-1.
--
-- Lua reads states, decides which plans are admitted and writes new states. It reports nothing else: it
-- returns the states it saw and the time it used, and the caller replays the plans on them with the core's
-- own algorithms. So what remains, when to retry and how long to wait are computed in one place only.
--
-- KEYS     Every key of the plans, once; at most 2000. All are strings, so one MGET reads them, and each changed
--          key is written once, at the end, however many plans changed it.
-- ARGV[1]  Empty: the time is that of Redis. Tests pass "<microseconds> <milliseconds>" instead: the time, and
--          an offset for every expiry, because Redis expires keys by its own clock.
-- ARGV[2]  The plans, in groups: see main.lua.
-- ARGV[3]  and on: the terms, each a limit with a cost. The file of each algorithm documents its layout.
--
-- Reply    one list:
--          states    for each key what it held before the call, or nil. A key that is not a string is "!type".
--          time      in microseconds
--          admitted  integers of 32 bits, one for every 32 plans: plan p, from 0, was admitted if bit p % 32
--                    of integer p / 32 is set.
--          errors    plan, index in KEYS, plan, index in KEYS, ...: plans that changed nothing because that
--                    key cannot be read. Empty if there are none.
--
-- A term starts with two bytes, the algorithm's number and flags:
--   1  observed: it never denies, and is charged if the plan is admitted, whether it fits or not
--   2  counts denied attempts
--   4  costs nothing
-- Little-endian doubles follow, all of them whole and below 2^53 unless stated otherwise.
--
-- Numbers in Lua 5.1 are doubles. Sums and differences of integers below 2^53 are exact, and so are a % b and
-- floor(a / b): a quotient that is not whole is further from the next whole number than rounding moves it.
--
-- Every call runs the whole script again, and creating a function costs more the more outer locals its body
-- uses. So each file is one function, `define_...`, without outer locals. It creates the others only when
-- they are needed.

local now_us, expiry_shift_ms
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now_us, expiry_shift_ms = time[1] * 1000000 + time[2], 0
else
  local us, shift_ms = string.match(ARGV[1], '^(%d+) (%-?%d+)$')
  now_us, expiry_shift_ms = tonumber(us), tonumber(shift_ms)
end
