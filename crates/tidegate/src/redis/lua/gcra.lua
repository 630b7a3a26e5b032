-- gcra: L per W, burst B.
--
-- KEYS   one: the arrival time (TAT)
-- Term   1, flags, limit, span_us, span_fraction, reach_us, reach_fraction
--          limit   L
--          span    c*W/L: how far the cost moves the arrival time
--          reach   B*W/L: how far it may be ahead of now, below 2^51 us; if it is more, see gcra_wide.lua
--        An instant or a span is whole microseconds and a fraction over 1000*L, so one carry does for nanoseconds and
--        remainder. A span that is more than the reach may be given as 2^53 us.
-- State  the arrival time, as short as it can be:
--          "1750000000000000"      whole microseconds
--          "-1750000000000000100"  whole nanoseconds, negated: they take 63 bits, and the sign tells them apart
--          "f" us:7 ns:2 rest:5    big-endian; rest is the remainder over L, of the L it was written under
--          "w" ...                 see gcra_wide.lua
--        The first two are kept by Redis as integers. A key whose arrival time is over is as one never seen.
--
-- Admitted if max(TAT, t) + span <= t + reach; then that is the arrival time.

-- What reads the finer states, for gcra_wide too.
local function define_fine_arrivals()
  local US_PER_DAY = 86400000000
  -- Days that are still below 2^53 us.
  local DAYS_NARROW_MAX = 104248
  local floor, tonumber, byte, sub, unpack_bytes = math.floor, tonumber, string.byte, string.sub, struct.unpack

  -- The arrival time in a state that is no plain number of microseconds; nil if there is none in it.
  -- A remainder under a larger L is still less than one nanosecond.
  return function(state, limit)
    local tag, length = byte(state), #state
    if tag == 45 and length > 4 then
      local us, ns = tonumber(sub(state, 2, -4)), tonumber(sub(state, -3))
      if us and ns and us >= 0 and us < 2 ^ 53 then return us, ns * limit end
    elseif tag == 102 and length == 15 then
      local us, ns, rest = unpack_bytes('>I7I2I5', state, 2)
      if rest >= limit then rest = limit - 1 end
      return us, ns * limit + rest
    elseif tag == 119 and length == 19 then
      local days, ns, rest = unpack_bytes('>I7I6I5', state, 2)
      -- Further ahead than this algorithm reaches in any case, so it does not matter by how much.
      if days > DAYS_NARROW_MAX then return 2 ^ 53, 0 end
      if rest >= limit then rest = limit - 1 end
      return days * US_PER_DAY + floor(ns / 1000), ns % 1000 * limit + rest
    end
    return nil
  end
end

local function define_gcra(now_us, read_fine_arrival)
  local EXACT_MAX = 2 ^ 53
  local floor, tonumber, format = math.floor, tonumber, string.format
  local pack, unpack_bytes = struct.pack, struct.unpack

  -- max(TAT, t) as microseconds and fraction; nil if the state cannot be read.
  local function start(state, limit)
    if not state then return now_us, 0 end
    local us, fraction = tonumber(state), 0
    if not us or not (us >= 0 and us < EXACT_MAX) then
      us, fraction = read_fine_arrival(state, limit)
      if not us then return nil end
    end
    if us < now_us then return now_us, 0 end
    return us, fraction
  end

  -- The state of an arrival time, and when it is over.
  local function write(us, fraction, limit)
    if fraction == 0 then return us, floor((us + 999) / 1000) end
    local ns = floor(fraction / limit)
    local rest = fraction - ns * limit
    if rest == 0 and us > 0 then return format('-%d%03d', us, ns), floor((us + 1000) / 1000) end
    return 'f' .. pack('>I7I2I5', us, ns, rest), floor((us + 1000) / 1000)
  end

  local function weigh(term, state)
    local us, fraction = start(state, term.limit)
    if not us then return nil end
    us, fraction = us + term.span_us, fraction + term.span_fraction
    if fraction >= term.unit then us, fraction = us + 1, fraction - term.unit end
    local bound_us = term.bound_us
    return us < bound_us or us == bound_us and fraction <= term.reach_fraction, us, fraction
  end

  -- A bucket that only looks on is emptied by what does not fit, and runs into no debt: the arrival time ends up where
  -- nothing is left, or stays where it is if that is further ahead.
  local function charge(term, fits, us, fraction, _, state)
    if fits then return write(us, fraction, term.limit) end
    us, fraction = start(state, term.limit)
    if us > term.bound_us or us == term.bound_us and fraction > term.reach_fraction then
      return write(us, fraction, term.limit)
    end
    return write(term.bound_us, term.reach_fraction, term.limit)
  end

  local function refund(term, state)
    local us, fraction = start(state, term.limit)
    if not us then return nil end
    us, fraction = us - term.span_us, fraction - term.span_fraction
    if fraction < 0 then us, fraction = us - 1, fraction + term.unit end
    if us < now_us then return false end
    return write(us, fraction, term.limit)
  end

  return function(bytes, looks_on, _, is_free)
    local limit, span_us, span_fraction, reach_us, reach_fraction = unpack_bytes('<ddddd', bytes, 3)
    return {
      weigh = weigh, charge = charge, refund = refund, looks_on = looks_on, is_free = is_free, limit = limit,
      span_us = span_us, span_fraction = span_fraction, reach_fraction = reach_fraction,
      -- Worked out here once: all plans of a call are decided at the same time.
      bound_us = now_us + reach_us, unit = 1000 * limit,
    }
  end
end
