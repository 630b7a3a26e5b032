-- sub_windows: L per W, n sub-windows, strict.
--
-- KEYS   one: what was used in each sub-window
-- Term   6, flags, limit, cost, window_us, window_ns (0 to 999), sub_windows, strict (1 or 0)
-- State  the ledger of ledger.lua. The base is the number of the window floor(t/W) in which the first entry was made, and
--        a stamp the number of a sub-window since that window began: numbers from the epoch on may be more than 2^53.
--
-- Sub-window floor(t*n/W) is number floor(e*n/W) of window floor(t/W), where e is how far t is into it. Admitted if the
-- cost in it and in the n - 1 before it (strict: the n before it), plus c, is at most L. For a time before the newest
-- entry, its sub-window counts.

local function define_sub_windows(now_us, windows, ledger)
  local EXACT_MAX = 2 ^ 53
  local floor, ceil, unpack_bytes = math.floor, math.ceil, struct.unpack
  local window_at, is_product_at_most = windows.at, windows.is_product_at_most
  local ledger_length, ledger_entry, ledger_used = ledger.length, ledger.entry, ledger.used
  local ledger_add, ledger_take_back, ledger_take_back_at = ledger.add, ledger.take_back, ledger.take_back_at

  -- floor(e*n/W).
  local function sub_window_at(into_us, into_ns, term)
    local parts, window_us, window_ns = term.sub_windows, term.window_us, term.window_ns
    local number = floor(into_us * parts / window_us)
    if into_ns == 0 and window_ns == 0 and window_us * parts < EXACT_MAX then return number end
    -- This was about right.
    if number >= parts then number = parts - 1 end
    while not is_product_at_most(number, window_us, window_ns, parts, into_us, into_ns) do number = number - 1 end
    while is_product_at_most(number + 1, window_us, window_ns, parts, into_us, into_ns) do number = number + 1 end
    return number
  end

  -- When a sub-window no longer counts: at the start of the one that is one more than the reach after it, rounded up.
  local function forgotten_ms(term, base, stamp)
    local parts, window_us, window_ns = term.sub_windows, term.window_us, term.window_ns
    local after = stamp + term.reach + 1
    local window = floor(after / parts)
    local part = after - window * parts
    -- part*W/n: whole microseconds of W/n first, and what they leave of W in a product that is small.
    local rest_us = window_us % parts
    local number = base + window
    local beside_ns = number * window_ns
    local us = number * window_us + part * ((window_us - rest_us) / parts) + floor(beside_ns / 1000)
    -- What is left, in 1/n ns.
    local fraction = beside_ns % 1000 * parts + part * (window_ns + rest_us * 1000)
    return floor((us + ceil(fraction / (1000 * parts)) + 999) / 1000)
  end

  -- The number of the sub-window that counts, from the base on, and the length of the ledger; nil if it is none.
  local function number_now(term, state)
    if not state then return term.part, 0 end
    local length = ledger_length(state)
    if not length then return nil end
    local newest = ledger_entry(state, length)
    local number = (term.window - unpack_bytes('>I6', state)) * term.sub_windows + term.part
    return newest > number and newest or number, length
  end

  local function weigh(term, state)
    local number, length = number_now(term, state)
    if not number then return nil end
    local used = state and ledger_used(state, length, number - term.reach) or 0
    return used + term.cost <= term.limit, number
  end

  local function charge(term, _, number, _, _, state)
    local base = term.window
    if state then
      base = unpack_bytes('>I6', state)
      local newest = ledger_entry(state, ledger_length(state))
      -- Nothing of it counts any more, so it begins again, and numbers stay small.
      if newest < number - term.reach then
        state, number, base = nil, term.part, term.window
      end
    end
    return ledger_add(state, base, number, term.cost, number - term.reach, term.limit), forgotten_ms(term, base, number)
  end

  local function refund(term, state, from_us)
    if not ledger_length(state) then return nil end
    local base = unpack_bytes('>I6', state)
    local left, newest
    if from_us > 0 then
      local window, into_us, into_ns = window_at(from_us, term.window_us, term.window_ns)
      local number = (window - base) * term.sub_windows + sub_window_at(into_us, into_ns, term)
      left, newest = ledger_take_back_at(state, number, term.cost)
    else
      left, newest = ledger_take_back(state, term.cost)
    end
    return left, newest and forgotten_ms(term, base, newest)
  end

  return function(bytes, looks_on, _, is_free)
    local limit, cost, window_us, window_ns, sub_windows, strict = unpack_bytes('<dddddd', bytes, 3)
    local term = {
      weigh = weigh, charge = charge, refund = refund, looks_on = looks_on, is_free = is_free, limit = limit,
      cost = cost, window_us = window_us, window_ns = window_ns, sub_windows = sub_windows,
      reach = strict == 1 and sub_windows or sub_windows - 1, window = 0, part = 0,
    }
    local window, into_us, into_ns = window_at(now_us, window_us, window_ns)
    term.window, term.part = window, sub_window_at(into_us, into_ns, term)
    return term
  end
end
