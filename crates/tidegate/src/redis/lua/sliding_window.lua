-- sliding_window: L per W.
--
-- KEYS   one: the counts of a window and of the one before it
-- Term   5, flags, limit, cost, window_us, window_ns (0 to 999)
-- State  the window's number since the epoch, prev and cur:
--          "175000000000120034"       the number, then four digits of prev and four of cur; Redis stores an integer
--          "s" number:6 prev:5 cur:5  big-endian, if that does not fit
--
-- Admitted if prev*(W - e) + (cur + c)*W <= L*W, where e is how far now is into the window. If time stepped
-- back, a window after now counts as it is, from its first instant.

local function define_sliding_window(now_us, windows)
  local EXACT_MAX = 2 ^ 53
  local COUNT_MAX = 2 ^ 40 - 1
  -- What 63 bits leave for the number if eight digits are counts.
  local NUMBER_END, DIGITS_END = 92000000000, 10000
  local floor, tonumber, byte, sub, format = math.floor, tonumber, string.byte, string.sub, string.format
  local pack, unpack_bytes = struct.pack, struct.unpack
  local window_at, window_starts, is_product_at_most = windows.at, windows.starts, windows.is_product_at_most

  -- The number of the window, prev and cur; nil if the state cannot be read.
  local function read_windows(state)
    if byte(state) == 115 then
      if #state == 17 then return unpack_bytes('>I6I5I5', state, 2) end
      return nil
    end
    -- Window 0 is written without its number, and so without leading zeros.
    if #state <= 8 then
      local counts = tonumber(state)
      if counts and counts >= 0 and counts < DIGITS_END * DIGITS_END then
        return 0, floor(counts / DIGITS_END), counts % DIGITS_END
      end
      return nil
    end
    local number, prev, cur = tonumber(sub(state, 1, -9)), tonumber(sub(state, -8, -5)), tonumber(sub(state, -4))
    if number and prev and cur and number < NUMBER_END and prev >= 0 and cur >= 0 then return number, prev, cur end
    return nil
  end

  -- A state without usage in its own window expires one window earlier.
  local function write_windows(term, number, prev, cur)
    local ends = number + (cur > 0 and 2 or 1)
    local expires = floor((window_starts(ends, term.window_us, term.window_ns) + 999) / 1000)
    if prev >= DIGITS_END or cur >= DIGITS_END or number >= NUMBER_END then
      return 's' .. pack('>I6I5I5', number, prev, cur), expires
    end
    if number > 0 then return format('%d%04d%04d', number, prev, cur), expires end
    return format('%d', prev * DIGITS_END + cur), expires
  end

  -- The window at now: number, prev, cur; nil if the state cannot be read.
  local function windows_now(term, state)
    local number = term.number
    if not state then return number, 0, 0 end
    local state_number, prev, cur = read_windows(state)
    if not state_number then return nil end
    if state_number >= number then return state_number, prev, cur end
    if state_number == number - 1 then return number, cur, 0 end
    return number, 0, 0
  end

  local function decide(term, state)
    local number, prev, cur = windows_now(term, state)
    if not number then return nil end
    local room = term.limit - cur - term.cost
    if room < 0 then return false, number, prev, cur end
    if prev <= room then return true, number, prev, cur end
    local left_us, left_ns = term.left_us, term.left_ns
    if number > term.number then left_us, left_ns = term.window_us, term.window_ns end
    -- Nearly always both products are exact, and can be compared directly.
    if prev <= term.narrow_max and left_ns == 0 and term.window_ns == 0 then
      return prev * left_us <= room * term.window_us, number, prev, cur
    end
    return is_product_at_most(prev, left_us, left_ns, room, term.window_us, term.window_ns), number, prev, cur
  end

  local function charge(term, _, number, prev, cur)
    cur = cur + term.cost
    if cur > COUNT_MAX then cur = COUNT_MAX end
    return write_windows(term, number, prev, cur)
  end

  local function refund(term, state, from_us)
    local number, prev, cur = windows_now(term, state)
    if not number then return nil end
    if from_us > 0 then
      local state_number = read_windows(state)
      if state_number > window_at(from_us, term.window_us, term.window_ns) then return true end
    end
    local from_prev = term.cost - cur
    if from_prev > 0 then prev, cur = prev - from_prev, 0 else cur = cur - term.cost end
    if prev < 0 then prev = 0 end
    if prev + cur == 0 then return false end
    return write_windows(term, number, prev, cur)
  end

  -- Units of the previous window count there, and older ones are dropped.
  local function count(term, state, from_us)
    local number, prev, cur = windows_now(term, state)
    if not number then return nil end
    local ago = number - window_at(from_us, term.window_us, term.window_ns)
    if ago > 1 then return true end
    if ago == 1 then prev = prev + term.cost else cur = cur + term.cost end
    if prev > COUNT_MAX then prev = COUNT_MAX end
    if cur > COUNT_MAX then cur = COUNT_MAX end
    return write_windows(term, number, prev, cur)
  end

  return function(bytes, is_observed, _, is_zero_cost)
    local limit, cost, window_us, window_ns = unpack_bytes('<dddd', bytes, 3)
    local number, into_us, into_ns = window_at(now_us, window_us, window_ns)
    local left_us, left_ns = window_us - into_us, window_ns - into_ns
    if left_ns < 0 then left_us, left_ns = left_us - 1, left_ns + 1000 end
    return {
      decide = decide, charge = charge, refund = refund, count = count, is_observed = is_observed,
      is_zero_cost = is_zero_cost,
      limit = limit, cost = cost, window_us = window_us, window_ns = window_ns,
      number = number, left_us = left_us, left_ns = left_ns,
      -- Here room is less than prev.
      narrow_max = floor(EXACT_MAX / window_us) - 1,
    }
  end
end
