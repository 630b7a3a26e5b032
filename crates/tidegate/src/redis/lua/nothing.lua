-- nothing: what a bucket with a limit of 0 admits, whatever its state.
--
-- KEYS   one; it is looked at for the reply, and never written
-- Term   10, flags
-- State  none of its own

local function define_nothing()
  local function weigh(term) return term.is_free end
  local function charge() return nil end
  local function refund() return true end
  return function(_, looks_on, _, is_free)
    return { weigh = weigh, charge = charge, refund = refund, looks_on = looks_on, is_free = is_free }
  end
end
