-- sliding_log: L per W.
--
-- KEYS   one: the log
-- Term   7, flags, limit, cost, window_us, min_interval_us: both rounded up, for between whole microseconds that decides
--        the same; 0 if there is no least interval
-- State  the ledger of ledger.lua. The base is 0 and stamps are microseconds.
--
-- Admitted if the cost logged in (t - W, t], plus c, is at most L, and the last entry is at least the least interval old.
-- For a time before the newest entry, t is that of the entry.

local function define_sliding_log(now_us, ledger)
  local floor, unpack_bytes = math.floor, struct.unpack
  local ledger_length, ledger_entry, ledger_used = ledger.length, ledger.entry, ledger.used
  local ledger_add, ledger_take_back, ledger_take_back_at = ledger.add, ledger.take_back, ledger.take_back_at

  local function weigh(term, state)
    if not state then return term.cost <= term.limit, now_us end
    local length = ledger_length(state)
    if not length then return nil end
    local newest = ledger_entry(state, length)
    local instant = newest > now_us and newest or now_us
    if instant - newest < term.min_interval_us then return false, instant end
    return ledger_used(state, length, instant - term.window_us + 1) + term.cost <= term.limit, instant
  end

  local function charge(term, _, instant, _, _, state)
    local oldest = instant - term.window_us + 1
    return ledger_add(state, 0, instant, term.cost, oldest, term.limit), floor((instant + term.window_us + 999) / 1000)
  end

  local function refund(term, state, from_us)
    if not ledger_length(state) then return nil end
    local left, newest
    if from_us > 0 then
      left, newest = ledger_take_back_at(state, from_us, term.cost)
    else
      left, newest = ledger_take_back(state, term.cost)
    end
    return left, newest and floor((newest + term.window_us + 999) / 1000)
  end

  return function(bytes, looks_on, counts_denied, is_free)
    local limit, cost, window_us, min_interval_us = unpack_bytes('<dddd', bytes, 3)
    return {
      weigh = weigh, charge = charge, refund = refund, looks_on = looks_on, counts_denied = counts_denied,
      is_free = is_free, limit = limit, cost = cost, window_us = window_us, min_interval_us = min_interval_us,
    }
  end
end
