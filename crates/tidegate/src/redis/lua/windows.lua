-- Arithmetic for windows that need not be whole microseconds: fixed_window, sliding_window and sub_windows.
--
-- A length or a distance is whole microseconds and 0 to 999 nanoseconds: nanoseconds alone can exceed 2^53.

local function define_windows()
  local floor = math.floor

  -- The number of the window that contains an instant, from the epoch, and how far into it the instant is.
  local function window_at(us, window_us, window_ns)
    if window_ns == 0 then
      local number = floor(us / window_us)
      return number, us - number * window_us, 0
    end
    -- This may be off by one. The way back is exact: a window is at least a millisecond, so its number times 999
    -- is less than us.
    local number = floor(us / (window_us + window_ns / 1000))
    local beside_ns = number * window_ns
    local into_us, into_ns = us - number * window_us - floor(beside_ns / 1000), -(beside_ns % 1000)
    if into_ns < 0 then into_us, into_ns = into_us - 1, into_ns + 1000 end
    if into_us < 0 then
      number, into_us, into_ns = number - 1, into_us + window_us, into_ns + window_ns
      if into_ns >= 1000 then into_us, into_ns = into_us + 1, into_ns - 1000 end
    elseif into_us > window_us or into_us == window_us and into_ns >= window_ns then
      number, into_us, into_ns = number + 1, into_us - window_us, into_ns - window_ns
      if into_ns < 0 then into_us, into_ns = into_us - 1, into_ns + 1000 end
    end
    return number, into_us, into_ns
  end

  -- The first whole microsecond that is not before the start of a window.
  local function window_starts(number, window_us, window_ns)
    return number * window_us + floor((number * window_ns + 999) / 1000)
  end

  -- a times a length in nanoseconds, in limbs of 10^6, lowest first. a is below 2^42, the length at most
  -- 10^18.
  local function product(a, us, ns)
    local a0 = a % 1000000
    local a1 = (a - a0) / 1000000
    local b0 = us % 1000 * 1000 + ns
    local b1 = floor(us / 1000) % 1000000
    local b2 = floor(us / 1000000000)
    local p0 = a0 * b0
    local p1 = a0 * b1 + a1 * b0 + floor(p0 / 1000000)
    local p2 = a0 * b2 + a1 * b1 + floor(p1 / 1000000)
    local p3 = a1 * b2 + floor(p2 / 1000000)
    return p0 % 1000000, p1 % 1000000, p2 % 1000000, p3
  end

  -- Whether a times one length is at most b times another, for products of any size.
  local function is_product_at_most(a, a_us, a_ns, b, b_us, b_ns)
    local a0, a1, a2, a3 = product(a, a_us, a_ns)
    local b0, b1, b2, b3 = product(b, b_us, b_ns)
    if a3 ~= b3 then return a3 < b3 end
    if a2 ~= b2 then return a2 < b2 end
    if a1 ~= b1 then return a1 < b1 end
    return a0 <= b0
  end

  return { at = window_at, starts = window_starts, is_product_at_most = is_product_at_most }
end
