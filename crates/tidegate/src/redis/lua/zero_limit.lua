-- zero_limit: a bucket with a limit of 0, which admits only charges without a cost.
--
-- KEYS   one; it is read for the reply, and never written
-- Term   10, flags
-- State  none

local function define_zero_limit()
  local function decide(term) return term.is_zero_cost end
  local function charge() return nil end
  local function refund() return true end
  return function(_, is_observed, _, is_zero_cost)
    return { decide = decide, charge = charge, refund = refund, count = refund, is_observed = is_observed,
      is_zero_cost = is_zero_cost }
  end
end
