-- Records that a node is live, and returns how many nodes are. This script is separate from the one that
-- decides.
--
-- KEYS[1]  a sorted set: node ids by their last heartbeat, in microseconds of the server's time
-- ARGV[1]  the id of the node
-- ARGV[2]  how many microseconds a node counts as live after its last heartbeat
-- ARGV[3]  how many milliseconds the key stays without a heartbeat
-- Reply    the number of live nodes, this one included
--
-- The time is that of Redis, so the clocks of the nodes do not matter. Each heartbeat removes nodes without
-- one for that long. The key stays much longer than that: a Redis that is full evicts the keys that expire
-- soonest (volatile-ttl), and the outage shares depend on this key.

local time = redis.call('TIME')
local now_us, live_for_us = time[1] * 1000000 + time[2], tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], string.format('%.0f', now_us), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now_us - live_for_us))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return redis.call('ZCARD', KEYS[1])
