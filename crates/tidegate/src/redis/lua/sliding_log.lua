-- sliding_log: L per W.
--
-- KEYS   one: the log
-- Term   7, flags, limit, cost, window_us, min_interval_us: both rounded up, which decides the same between
--        whole microseconds; 0 means no least interval
-- State  the usage log of usage_log.lua. The base is 0 and stamps are microseconds.
--
-- Admitted if the cost logged in (t - W, t] plus c is at most L, and the last entry is at least the least
-- interval old. If t is before the newest entry, the time of that entry counts.

local function define_sliding_log(now_us, usage_log)
  local floor, unpack_bytes = math.floor, struct.unpack
  local log_length, log_entry, log_used = usage_log.length, usage_log.entry, usage_log.used
  local log_add, refund_newest, refund_at = usage_log.add, usage_log.refund, usage_log.refund_at

  local function decide(term, state)
    if not state then return term.cost <= term.limit, now_us end
    local length = log_length(state)
    if not length then return nil end
    local newest = log_entry(state, length)
    local instant = newest > now_us and newest or now_us
    if instant - newest < term.min_interval_us then return false, instant end
    return log_used(state, length, instant - term.window_us + 1) + term.cost <= term.limit, instant
  end

  local function charge(term, _, instant, _, _, state)
    local oldest = instant - term.window_us + 1
    return log_add(state, 0, instant, term.cost, oldest, term.limit), floor((instant + term.window_us + 999) / 1000)
  end

  local function refund(term, state, from_us)
    if not log_length(state) then return nil end
    local left, newest
    if from_us > 0 then
      left, newest = refund_at(state, from_us, term.cost)
    else
      left, newest = refund_newest(state, term.cost)
    end
    return left, newest and floor((newest + term.window_us + 999) / 1000)
  end

  return function(bytes, is_observed, counts_denied, is_zero_cost)
    local limit, cost, window_us, min_interval_us = unpack_bytes('<dddd', bytes, 3)
    return {
      decide = decide, charge = charge, refund = refund, is_observed = is_observed, counts_denied = counts_denied,
      is_zero_cost = is_zero_cost, limit = limit, cost = cost, window_us = window_us, min_interval_us = min_interval_us,
    }
  end
end
