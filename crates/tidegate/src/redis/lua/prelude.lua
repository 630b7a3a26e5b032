-- Tidegate's script for Redis and Valkey: whole plans, several at a time, decided in one call.
--
-- The script is these files, joined in this order: prelude, gcra, gcra_wide, token_bucket, leaky_bucket, windows,
-- fixed_window, sliding_window, ledger, sliding_log, sub_windows, concurrency, nothing, plans, main. It is loaded once and
-- called by hash.
--
-- Lua looks at states, decides who is admitted and writes new states. It reports nothing: it replies with the states it
-- saw and the time it used, and the caller plays the plans on them with the core's own algorithms. So what remains, when
-- to retry and how long to wait is worked out in one place only.
--
-- KEYS     Every key that the plans touch, once; at most 2000. All are strings, so one MGET reads them, and each that
--          changes is written once, at the end, however many plans changed it.
-- ARGV[1]  Empty: the time is that of Redis. Tests hand in "<microseconds> <milliseconds>" instead: the time, and what is
--          added to every expiry, since Redis expires keys by its own clock.
-- ARGV[2]  The plans, in groups: see main.lua.
-- ARGV[3]  and on: the terms, each a limit with a cost. See the file of each algorithm for its layout.
--
-- Reply    one list:
--          states    for each of KEYS what it held before the call, nil if nothing. One that is not a string is "!type".
--          time      in microseconds
--          admitted  integers of 32 bits, as many as the plans need: plan p, from 0, was admitted if bit p % 32 of integer
--                    p / 32 is set.
--          errors    plan, place in KEYS, plan, place in KEYS, ...: plans that changed nothing because what that key
--                    holds cannot be read. Nothing if there are none.
--
-- A term begins with two bytes, the algorithm's number and flags:
--   1  looks on: it never denies, and is charged if the plan is admitted, whether it fits or not
--   2  counts denied attempts
--   4  costs nothing
-- What follows are doubles, little-endian, all of them whole and below 2^53 unless said otherwise.
--
-- Numbers in Lua 5.1 are doubles. Sums and differences of integers below 2^53 are exact, and so are a % b and
-- floor(a / b), since a quotient that is not whole is further from the next whole number than rounding takes it.

--
-- A call runs all of this again, and to make a function costs the more the more locals around it functions use. So each file
-- is one function, `define_...`, that uses no locals around it; it makes the others when they are needed.

local now_us, expiry_shift_ms
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now_us, expiry_shift_ms = time[1] * 1000000 + time[2], 0
else
  local us, shift_ms = string.match(ARGV[1], '^(%d+) (%-?%d+)$')
  now_us, expiry_shift_ms = tonumber(us), tonumber(shift_ms)
end
