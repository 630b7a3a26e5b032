-- Checks whether a server can be used: runs every command of the decision and heartbeat scripts on an unused
-- key.
--
-- So problems show before a decision depends on the server: a user without permissions, a server that accepts
-- no writes (a replica, out of memory, or unable to save), or a lost cluster.
--
-- KEYS[1]  a key that does not exist
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
