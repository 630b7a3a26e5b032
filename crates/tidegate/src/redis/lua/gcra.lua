-- gcra: L per W, burst B.
--
-- KEYS   one: the arrival time (TAT)
-- Term   1, flags, limit, span_us, span_fraction, reach_us, reach_fraction
--          limit   L
--          span    c*W/L: how far the cost moves the arrival time
--          reach   B*W/L: how far it may be ahead of now, below 2^51 us; gcra_wide.lua handles more
--        An instant or a span is whole microseconds and a fraction over 1000*L, so one carry serves both
--        nanoseconds and the remainder. A span longer than the reach may be given as 2^53 us.
-- State  the arrival time, as short as it can be:
--          "1750000000000000"      whole microseconds
--          "-1750000000000000100"  whole nanoseconds, negated: they take 63 bits, and the sign marks them
--          "f" us:7 ns:2 rest:5    big-endian; rest is the remainder over L, of the L it was written under
--          "w" ...                 see gcra_wide.lua
--        Redis stores the first two as integers. A key whose arrival time has passed equals one never seen.
--
-- Admitted if max(TAT, t) + span <= t + reach. The left side is then the new arrival time.

-- The arrival time of a state that is not a plain number of microseconds; nil if it cannot be read. A
-- remainder written under a larger L is still less than one nanosecond.
local function read_fine_arrival(state, limit)
  local tag, length = string.byte(state), #state
  if tag == 45 and length > 4 then
    local us, ns = tonumber(string.sub(state, 2, -4)), tonumber(string.sub(state, -3))
    if us and ns and us >= 0 and us < 2 ^ 53 then return us, ns * limit end
  elseif tag == 102 and length == 15 then
    local us, ns, rest = struct.unpack('>I7I2I5', state, 2)
    if rest >= limit then rest = limit - 1 end
    return us, ns * limit + rest
  elseif tag == 119 and length == 19 then
    local days, ns, rest = struct.unpack('>I7I6I5', state, 2)
    -- 2^53 us: further ahead than this limit reaches, so the exact value does not matter. Another limit wrote
    -- such an arrival time, and it stays.
    if days > 104248 then return 2 ^ 53, 0 end
    if rest >= limit then rest = limit - 1 end
    return days * 86400000000 + math.floor(ns / 1000), ns % 1000 * limit + rest
  end
  return nil
end

-- The state of an arrival time, and the millisecond in which it expires, rounded up.
local function write_arrival(us, fraction, limit)
  if fraction == 0 then return us, math.floor((us + 999) / 1000) end
  local ns = math.floor(fraction / limit)
  local rest = fraction - ns * limit
  local expires_ms = math.floor((us + 1000) / 1000)
  if rest == 0 and us > 0 then return string.format('-%d%03d', us, ns), expires_ms end
  return 'f' .. struct.pack('>I7I2I5', us, ns, rest), expires_ms
end

-- Plans of one enforced charge, which most calls consist of. It decides like the functions below, but creates
-- neither tables nor functions. check_single in main.lua does the same for other algorithms.
local function check_gcra(
  keys_state, term, plan, plans, key_index, stride, writes, now_us, read_fine_arrival, write_arrival
)
  local before, after = keys_state.before, keys_state.after
  local expires_ms, admitted = keys_state.expires_ms, keys_state.admitted
  local limit, span_us, span_fraction, reach_us, reach_fraction = struct.unpack('<ddddd', term, 3)
  local unit, bound_us, exact_max, tonumber = 1000 * limit, now_us + reach_us, 2 ^ 53, tonumber
  local word, bit, bits = math.floor(plan / 32) + 1, 2 ^ (plan % 32), 0
  for at = plan, plan + plans - 1 do
    local state = after[key_index]
    if state == nil then state = before[key_index] end
    local us, fraction = now_us, 0
    if state then
      us = tonumber(state)
      if not us or not (us >= 0 and us < exact_max) then us, fraction = read_fine_arrival(state, limit) end
      if us and us < now_us then us, fraction = now_us, 0 end
    end
    if us then
      us, fraction = us + span_us, fraction + span_fraction
      if fraction >= unit then us, fraction = us + 1, fraction - unit end
      if us < bound_us or us == bound_us and fraction <= reach_fraction then
        bits = bits + bit
        if not writes then
          -- A peek writes nothing.
        elseif fraction == 0 then
          local late_us = us + 999
          after[key_index], expires_ms[key_index] = us, (late_us - late_us % 1000) / 1000
        else
          after[key_index], expires_ms[key_index] = write_arrival(us, fraction, limit)
        end
      elseif stride == 0 then
        break
      end
    else
      keys_state.errors[#keys_state.errors + 1] = at
      keys_state.errors[#keys_state.errors + 1] = key_index
    end
    key_index, bit = key_index + stride, bit * 2
    if bit == 4294967296 then
      admitted[word] = admitted[word] + bits
      word, bit, bits = word + 1, 1, 0
    end
  end
  if bits > 0 then admitted[word] = admitted[word] + bits end
end

local function define_gcra(now_us, read_fine_arrival, write)
  -- max(TAT, t) as microseconds and fraction; nil if the state cannot be read.
  local function start(state, limit)
    if not state then return now_us, 0 end
    local us, fraction = tonumber(state), 0
    if not us or not (us >= 0 and us < 2 ^ 53) then
      us, fraction = read_fine_arrival(state, limit)
      if not us then return nil end
    end
    if us < now_us then return now_us, 0 end
    return us, fraction
  end

  local function decide(term, state)
    local us, fraction = start(state, term.limit)
    if not us then return nil end
    us, fraction = us + term.span_us, fraction + term.span_fraction
    if fraction >= term.unit then us, fraction = us + 1, fraction - term.unit end
    local bound_us = term.bound_us
    return us < bound_us or us == bound_us and fraction <= term.reach_fraction, us, fraction
  end

  -- A charge that does not fit empties an observed bucket and causes no debt: the arrival time moves to where
  -- nothing is left, or stays if it is further ahead.
  local function charge(term, fits, us, fraction, _, state)
    if fits then return write(us, fraction, term.limit) end
    us, fraction = start(state, term.limit)
    if us > term.bound_us or us == term.bound_us and fraction > term.reach_fraction then return nil end
    return write(term.bound_us, term.reach_fraction, term.limit)
  end

  -- The time since the charge started to count is not refunded: if the bucket became full meanwhile, that
  -- part is lost, whichever requests came after it.
  local function refund(term, state, from_us)
    local us, fraction = start(state, term.limit)
    if not us then return nil end
    if us == 2 ^ 53 then return true end
    local span_us = term.span_us
    if from_us > 0 and from_us < now_us then span_us = span_us - (now_us - from_us) end
    if span_us < 0 or span_us == 0 and term.span_fraction == 0 then return true end
    us, fraction = us - span_us, fraction - term.span_fraction
    if fraction < 0 then us, fraction = us - 1, fraction + term.unit end
    if us < now_us then return false end
    return write(us, fraction, term.limit)
  end

  -- The arrival time continues from max(TAT, from), and may end beyond the reach. From 2^52 us on, nothing is added.
  local function count(term, state, from_us)
    local us, fraction = from_us, 0
    if state then
      us = tonumber(state)
      if not us or not (us >= 0 and us < 2 ^ 53) then us, fraction = read_fine_arrival(state, term.limit) end
      if not us then return nil end
      if us < from_us then us, fraction = from_us, 0 end
    end
    us, fraction = us + term.span_us, fraction + term.span_fraction
    if fraction >= term.unit then us, fraction = us + 1, fraction - term.unit end
    if us >= 2 ^ 52 then return true end
    -- An arrival time before now matters to units that other nodes used in the same time. They come within seconds.
    local new_state, expires_ms = write(us, fraction, term.limit)
    return new_state, math.max(expires_ms, math.floor(now_us / 1000) + 10000)
  end

  return function(bytes, is_observed, _, is_zero_cost)
    local limit, span_us, span_fraction, reach_us, reach_fraction = struct.unpack('<ddddd', bytes, 3)
    return {
      decide = decide, charge = charge, refund = refund, count = count, is_observed = is_observed, is_zero_cost = is_zero_cost,
      limit = limit, span_us = span_us, span_fraction = span_fraction, reach_fraction = reach_fraction,
      -- Computed once: all plans of a call are decided at the same time.
      bound_us = now_us + reach_us, unit = 1000 * limit,
    }
  end
end
