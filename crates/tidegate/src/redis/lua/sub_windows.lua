-- sub_windows: L per W, n sub-windows, strict.
--
-- KEYS   one: the usage of each sub-window
-- Term   6, flags, limit, cost, window_us, window_ns (0 to 999), sub_windows, strict (1 or 0)
-- State  the usage log of usage_log.lua. The base is the number of the window floor(t/W) of the first entry,
--        and a stamp is the number of a sub-window since that window began: numbers since the epoch may
--        exceed 2^53.
--
-- Sub-window floor(t*n/W) is number floor(e*n/W) of window floor(t/W), where e is how far t is into it.
-- Admitted if the cost in it and in the n - 1 before it (strict: the n before it) plus c is at most L. If t
-- is before the newest entry, the sub-window of that entry counts.

local function define_sub_windows(now_us, windows, usage_log)
  local EXACT_MAX = 2 ^ 53
  local floor, ceil, unpack_bytes = math.floor, math.ceil, struct.unpack
  local window_at, is_product_at_most = windows.at, windows.is_product_at_most
  local log_length, log_entry, log_used = usage_log.length, usage_log.entry, usage_log.used
  local log_add, refund_newest, refund_at = usage_log.add, usage_log.refund, usage_log.refund_at

  -- floor(e*n/W).
  local function sub_window_at(into_us, into_ns, term)
    local parts, window_us, window_ns = term.sub_windows, term.window_us, term.window_ns
    local number = floor(into_us * parts / window_us)
    if into_ns == 0 and window_ns == 0 and window_us * parts < EXACT_MAX then return number end
    -- The quotient was only approximate.
    if number >= parts then number = parts - 1 end
    while not is_product_at_most(number, window_us, window_ns, parts, into_us, into_ns) do number = number - 1 end
    while is_product_at_most(number + 1, window_us, window_ns, parts, into_us, into_ns) do number = number + 1 end
    return number
  end

  -- When a sub-window stops counting, rounded up: at the start of the sub-window that is reach + 1 after it.
  local function forgotten_ms(term, base, stamp)
    local parts, window_us, window_ns = term.sub_windows, term.window_us, term.window_ns
    local after = stamp + term.reach + 1
    local window = floor(after / parts)
    local part = after - window * parts
    -- part*W/n: first whole microseconds of W/n, then the remainder of W as a small product.
    local rest_us = window_us % parts
    local number = base + window
    local beside_ns = number * window_ns
    local us = number * window_us + part * ((window_us - rest_us) / parts) + floor(beside_ns / 1000)
    -- The rest, in 1/n ns.
    local fraction = beside_ns % 1000 * parts + part * (window_ns + rest_us * 1000)
    return floor((us + ceil(fraction / (1000 * parts)) + 999) / 1000)
  end

  -- The number of the current sub-window from the base, and the length of the usage log; nil if it cannot be
  -- read.
  local function number_now(term, state)
    if not state then return term.part, 0 end
    local length = log_length(state)
    if not length then return nil end
    local newest = log_entry(state, length)
    local number = (term.window - unpack_bytes('>I6', state)) * term.sub_windows + term.part
    return newest > number and newest or number, length
  end

  local function decide(term, state)
    local number, length = number_now(term, state)
    if not number then return nil end
    local used = state and log_used(state, length, number - term.reach) or 0
    return used + term.cost <= term.limit, number
  end

  local function charge(term, _, number, _, _, state)
    local base = term.window
    if state then
      base = unpack_bytes('>I6', state)
      local newest = log_entry(state, log_length(state))
      -- Nothing in it counts any more, so it starts again, which keeps the numbers small.
      if newest < number - term.reach then
        state, number, base = nil, term.part, term.window
      end
    end
    return log_add(state, base, number, term.cost, number - term.reach, term.limit), forgotten_ms(term, base, number)
  end

  local function refund(term, state, from_us)
    if not log_length(state) then return nil end
    local base = unpack_bytes('>I6', state)
    local left, newest
    if from_us > 0 then
      local window, into_us, into_ns = window_at(from_us, term.window_us, term.window_ns)
      local number = (window - base) * term.sub_windows + sub_window_at(into_us, into_ns, term)
      left, newest = refund_at(state, number, term.cost)
    else
      left, newest = refund_newest(state, term.cost)
    end
    return left, newest and forgotten_ms(term, base, newest)
  end

  return function(bytes, is_observed, _, is_zero_cost)
    local limit, cost, window_us, window_ns, sub_windows, strict = unpack_bytes('<dddddd', bytes, 3)
    local term = {
      decide = decide, charge = charge, refund = refund, is_observed = is_observed, is_zero_cost = is_zero_cost,
      limit = limit, cost = cost, window_us = window_us, window_ns = window_ns, sub_windows = sub_windows,
      reach = strict == 1 and sub_windows or sub_windows - 1, window = 0, part = 0,
    }
    local window, into_us, into_ns = window_at(now_us, window_us, window_ns)
    term.window, term.part = window, sub_window_at(into_us, into_ns, term)
    return term
  end
end
