-- Says that a process is there, and hears how many are. A script of its own, not part of the one that decides.
--
-- KEYS[1]  a sorted set: who was heard of, by when, in microseconds of the server's time
-- ARGV[1]  who says so
-- ARGV[2]  for how many microseconds who was heard of is taken to be there
-- Reply    how many there are, this one included
--
-- The time is that of Redis, so the clocks of those who share it do not matter. Whoever was not heard of for that long is
-- forgotten by whoever is heard of next, and the key expires if nobody is.

local time = redis.call('TIME')
local now_us, kept_us = time[1] * 1000000 + time[2], tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], string.format('%.0f', now_us), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now_us - kept_us))
redis.call('PEXPIRE', KEYS[1], math.ceil(2 * kept_us / 1000))
return redis.call('ZCARD', KEYS[1])
