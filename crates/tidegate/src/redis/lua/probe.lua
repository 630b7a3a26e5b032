-- Whether a server can be used: all that the scripts do to keys, those of decisions and of heartbeats, done to one that nobody
-- needs.
--
-- A user who may not do it, a server that takes no writes (it is a replica, out of memory, cannot save) or that has lost
-- its cluster is found out before a decision depends on it.
--
-- KEYS[1]  a key that is not there
-- Reply    nothing
local time = redis.call('TIME')
redis.call('MGET', KEYS[1])
redis.call('EXISTS', KEYS[1])
redis.call('MSET', KEYS[1], '')
redis.call('PEXPIREAT', KEYS[1], time[1] * 1000 + 1000)
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], 1, 'probe')
redis.call('PEXPIRE', KEYS[1], 1000)
redis.call('ZCARD', KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 1, 1)
