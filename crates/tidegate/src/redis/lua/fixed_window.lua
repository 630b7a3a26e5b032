-- fixed_window: L per W.
--
-- KEYS   one: the window and its usage
-- Term   4, flags, limit, cost, align, and then
--          align 0, the epoch, or 1, the first hit: window_us, window_ns (0 to 999)
--          align 2, a calendar: four edges in microseconds, in ascending order. Windows lie between them, and
--          a new window ends at the first edge after now. If now is before the first edge or not before the
--          last, a plan that needs a new window is an error. The caller then calls again, with edges around
--          the time of the reply.
-- State  the window's end in microseconds, rounded up, and the count:
--          "1750000020000000005"  end in milliseconds, then six digits of count
--          "-1750000020000500005" negated: end in microseconds, then three digits of count
--          "e" end_us:7 used:6    big-endian, if neither fits
--        Redis stores the first two as integers. If W is not a whole number of microseconds, the exact end is
--        the only multiple of W in that microsecond, or W after the first hit, which was a whole microsecond.
--
-- Admitted if the usage of the window plus the cost is at most L. A window that has not ended counts, also
-- for a time before it began.

local function define_fixed_window(now_us, windows)
  local UNITS_END = 2 ^ 40
  -- What 63 bits leave for the end if six or three digits are the count.
  local END_US_MAX = 9200000000000000
  local floor, tonumber, byte, sub, format = math.floor, tonumber, string.byte, string.sub, string.format
  local pack, unpack_bytes = struct.pack, struct.unpack
  local window_at, window_starts = windows.at, windows.starts

  -- The end of the window and the count; nil if the state cannot be read.
  local function read_window(state)
    local tag = byte(state)
    if tag == 101 then
      if #state == 14 then return unpack_bytes('>I7I6', state, 2) end
      return nil
    end
    local end_us, used
    if tag == 45 then
      end_us, used = tonumber(sub(state, 2, -4)), tonumber(sub(state, -3))
    else
      end_us, used = tonumber(sub(state, 1, -7)), tonumber(sub(state, -6))
      end_us = end_us and end_us * 1000
    end
    if end_us and used and used >= 0 and end_us < END_US_MAX then return end_us, used end
    return nil
  end

  local function write_window(end_us, used)
    local state
    if used < 1000000 and end_us % 1000 == 0 and end_us < END_US_MAX then
      state = format('%d%06d', end_us / 1000, used)
    elseif used < 1000 and end_us < END_US_MAX then
      state = format('-%d%03d', end_us, used)
    else
      state = 'e' .. pack('>I7I6', end_us, used)
    end
    return state, floor((end_us + 999) / 1000)
  end

  -- The end of the window that contains an instant; nil if the given edges do not reach it.
  local function new_end(term, us)
    if term.align == 1 then return us + term.window_ceil_us end
    if term.align == 0 then
      local number = window_at(us, term.window_us, term.window_ns)
      return window_starts(number + 1, term.window_us, term.window_ns)
    end
    local edges = term.edges
    if us < edges[1] then return nil end
    for at = 2, 4 do
      if us < edges[at] then return edges[at] end
    end
    return nil
  end

  local function decide(term, state)
    local end_us, used
    if state then
      end_us, used = read_window(state)
      if not used then return nil end
    end
    if not end_us or end_us <= now_us or used == 0 then
      end_us, used = new_end(term, now_us), 0
      if not end_us then return nil end
    end
    return used + term.cost <= term.limit, end_us, used
  end

  local function charge(term, _, end_us, used)
    used = used + term.cost
    if used > UNITS_END then used = UNITS_END end
    return write_window(end_us, used)
  end

  local function refund(term, state, from_us)
    local end_us, used = read_window(state)
    if not used then return nil end
    if from_us > 0 and from_us < end_us then
      -- An instant before all given edges is before the first window that they describe.
      local end_then = new_end(term, from_us) or term.edges and from_us < term.edges[1] and term.edges[1]
      if end_then and end_then < end_us then return true end
    end
    if end_us <= now_us or used <= term.cost then return false end
    return write_window(end_us, used - term.cost)
  end

  -- Units whose window is over are dropped. Others count in the window that the key is in, which may have begun after
  -- them if it begins with the first request.
  local function count(term, state, from_us)
    local end_us, used
    if state then
      end_us, used = read_window(state)
      if not used then return nil end
    end
    local from_end_us = new_end(term, from_us)
    if not from_end_us then
      -- An instant before all given edges is in a window that ends with the first of them, at the latest.
      local edges = term.edges
      if from_us < edges[1] and edges[1] <= now_us then return true end
      return nil
    end
    if from_end_us <= now_us then return true end
    if not end_us or end_us <= now_us or used == 0 then
      end_us, used = from_end_us, 0
    end
    used = used + term.cost
    if used > UNITS_END then used = UNITS_END end
    return write_window(end_us, used)
  end

  return function(bytes, is_observed, counts_denied, is_zero_cost)
    local limit, cost, align, window_us, window_ns = unpack_bytes('<ddddd', bytes, 3)
    local term = {
      decide = decide, charge = charge, refund = refund, count = count, is_observed = is_observed,
      counts_denied = counts_denied, is_zero_cost = is_zero_cost, limit = limit, cost = cost, align = align, edges = false,
      window_us = window_us, window_ns = window_ns, window_ceil_us = window_ns > 0 and window_us + 1 or window_us,
    }
    if align == 2 then term.edges = { unpack_bytes('<dddd', bytes, 27) } end
    return term
  end
end
