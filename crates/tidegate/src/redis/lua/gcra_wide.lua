-- gcra, token_bucket and leaky_bucket where B*W/L is 2^51 us (71 years) or more: 1 per year with a burst of 1000.
--
-- KEYS   one: the arrival time as in gcra.lua, because a changed burst may lead from one file to the other
-- Term   9, flags, limit, span_days, span_ns, span_rest, reach_days, reach_ns, reach_rest
--          as in gcra.lua, but an instant or a span is whole days, nanoseconds of a day, and a remainder over
--          L: the largest burst at the lowest rate is 10^13 years, and days below 2^53 are twice that
-- State  "w" days:7 ns:6 rest:5, big-endian; also reads the states of gcra.lua

local function define_gcra_wide(now_us, read_fine_arrival)
  local EXACT_MAX = 2 ^ 53
  local US_PER_DAY, NS_PER_DAY, MS_PER_DAY = 86400000000, 86400000000000, 86400000
  local floor, tonumber, byte, pack, unpack_bytes = math.floor, tonumber, string.byte, struct.pack, struct.unpack
  local now_days = floor(now_us / US_PER_DAY)
  local now_ns = (now_us - now_days * US_PER_DAY) * 1000

  -- a, b, c and x, y, z are instants, most significant part first.
  local function is_before(a, b, c, x, y, z)
    if a ~= x then return a < x end
    if b ~= y then return b < y end
    return c < z
  end

  local function read(state, limit)
    if byte(state) == 119 and #state == 19 then
      local days, ns, rest = unpack_bytes('>I7I6I5', state, 2)
      if rest >= limit then rest = limit - 1 end
      return days, ns, rest
    end
    local us, fraction = tonumber(state), 0
    if not us or not (us >= 0 and us < EXACT_MAX) then
      us, fraction = read_fine_arrival(state, limit)
      if not us then return nil end
    end
    local days, ns = floor(us / US_PER_DAY), floor(fraction / limit)
    return days, (us - days * US_PER_DAY) * 1000 + ns, fraction - ns * limit
  end

  local function start(state, limit)
    if not state then return now_days, now_ns, 0 end
    local days, ns, rest = read(state, limit)
    if days and is_before(days, ns, rest, now_days, now_ns, 0) then return now_days, now_ns, 0 end
    return days, ns, rest
  end

  local function write(days, ns, rest)
    local expires_ms = days * MS_PER_DAY + floor((ns + 999999) / 1000000)
    if rest > 0 and ns % 1000000 == 0 then expires_ms = expires_ms + 1 end
    return 'w' .. pack('>I7I6I5', days, ns, rest), expires_ms
  end

  local function add_span(limit, days, ns, rest, more_days, more_ns, more_rest)
    days, ns, rest = days + more_days, ns + more_ns, rest + more_rest
    if rest >= limit then ns, rest = ns + 1, rest - limit end
    if ns >= NS_PER_DAY then days, ns = days + 1, ns - NS_PER_DAY end
    return days, ns, rest
  end

  local function bound(term)
    return add_span(term.limit, now_days, now_ns, 0, term.reach_days, term.reach_ns, term.reach_rest)
  end

  local function decide(term, state)
    local days, ns, rest = start(state, term.limit)
    if not days then return nil end
    days, ns, rest = add_span(term.limit, days, ns, rest, term.span_days, term.span_ns, term.span_rest)
    local bound_days, bound_ns, bound_rest = bound(term)
    return not is_before(bound_days, bound_ns, bound_rest, days, ns, rest), days, ns, rest
  end

  local function charge(term, fits, days, ns, rest, state)
    if fits then return write(days, ns, rest) end
    days, ns, rest = start(state, term.limit)
    local bound_days, bound_ns, bound_rest = bound(term)
    if is_before(bound_days, bound_ns, bound_rest, days, ns, rest) then return nil end
    return write(bound_days, bound_ns, bound_rest)
  end

  -- See gcra.lua.
  local function refund(term, state, from_us)
    local days, ns, rest = start(state, term.limit)
    if not days then return nil end
    local span_days, span_ns, span_rest = term.span_days, term.span_ns, term.span_rest
    if from_us > 0 and from_us < now_us then
      local passed_us = now_us - from_us
      local passed_days = floor(passed_us / US_PER_DAY)
      span_days, span_ns = span_days - passed_days, span_ns - (passed_us - passed_days * US_PER_DAY) * 1000
      if span_ns < 0 then span_days, span_ns = span_days - 1, span_ns + NS_PER_DAY end
      if span_days < 0 or span_days == 0 and span_ns == 0 and span_rest == 0 then return true end
    end
    days, ns, rest = days - span_days, ns - span_ns, rest - span_rest
    if rest < 0 then ns, rest = ns - 1, rest + term.limit end
    if ns < 0 then days, ns = days - 1, ns + NS_PER_DAY end
    if is_before(days, ns, rest, now_days, now_ns, 0) then return false end
    return write(days, ns, rest)
  end

  return function(bytes, is_observed, _, is_zero_cost)
    local limit, span_days, span_ns, span_rest, reach_days, reach_ns, reach_rest = unpack_bytes('<ddddddd', bytes, 3)
    return {
      decide = decide, charge = charge, refund = refund, is_observed = is_observed, is_zero_cost = is_zero_cost,
      limit = limit, span_days = span_days, span_ns = span_ns, span_rest = span_rest,
      reach_days = reach_days, reach_ns = reach_ns, reach_rest = reach_rest,
    }
  end
end
