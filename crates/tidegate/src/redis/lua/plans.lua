-- Plans of several charges, and all that is done to plans but the simplest check of one charge, which is in main.lua.
--
-- A plan is charged if all its charges fit that do not look on. If one does not, only those are charged that count denied
-- attempts. A charge that costs nothing changes nothing.

-- `held` is what main.lua knows of the keys. Each of the functions takes a group: its first plan, how many plans and
-- charges, and for each charge a term, the place of its key and the stride to that of the next plan.
local function define_plans(held, agree_on_lease)
  local floor, NOBODY = math.floor, string.rep('\0', 16)
  local seen, fresh, expires_ms, admitted, errors = held.seen, held.fresh, held.expires_ms, held.admitted, held.errors
  local freed = {}
  held.freed = freed
  local fit, weighed_a, weighed_b, weighed_c = {}, {}, {}, {}

  local function state_at(place)
    local state = fresh[place]
    if state == nil then return seen[place] end
    return state
  end

  local function keep(place, state, expires)
    fresh[place], expires_ms[place] = state, expires
  end

  local function fail(plan, place)
    errors[#errors + 1] = plan
    errors[#errors + 1] = place
  end

  local function admit(plan)
    local word = floor(plan / 32) + 1
    admitted[word] = admitted[word] + 2 ^ (plan % 32)
  end

  local function next_plan(group)
    for at = 1, group.charges do group.places[at] = group.places[at] + group.strides[at] end
  end

  -- Whether the plan is admitted; nil if a state cannot be read.
  local function weigh(group, plan)
    local is_admitted = true
    for at = 1, group.charges do
      local term, place = group.terms[at], group.places[at]
      local fits
      fits, weighed_a[at], weighed_b[at], weighed_c[at] = term.weigh(term, state_at(place))
      if fits == nil then
        fail(plan, place)
        return nil
      end
      fit[at] = fits
      if not fits and not term.looks_on then is_admitted = false end
    end
    return is_admitted
  end

  local function charge(group, is_admitted, lease)
    if is_admitted and lease then
      lease.expires_us, lease.expires_ns, lease.fence =
        agree_on_lease(lease, group.terms, group.charges, weighed_a, weighed_b)
    end
    for at = 1, group.charges do
      local term, place = group.terms[at], group.places[at]
      if not term.is_free and (is_admitted or term.counts_denied) then
        local state, expires =
          term.charge(term, fit[at], weighed_a[at], weighed_b[at], weighed_c[at], state_at(place), lease)
        if state ~= nil then keep(place, state, expires) end
      end
    end
  end

  -- The lease is that of the op; a check that takes leases has one that nobody owns.
  local function check(group, writes, lease)
    for at = 1, group.charges do
      if group.terms[at].has_leases and not lease then lease = { owner = NOBODY, ttl_us = 0, ttl_ns = 0 } end
    end
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      local is_admitted = weigh(group, plan)
      if is_admitted then admit(plan) end
      if writes and is_admitted ~= nil then charge(group, is_admitted, lease) end
      next_plan(group)
    end
  end

  -- Counts a denied attempt. What is weighed is needed to charge it.
  local function deny(group)
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      if weigh(group, plan) ~= nil then charge(group, false) end
      next_plan(group)
    end
  end

  -- A key that cannot be read keeps what it holds. The others of its plan are given back nevertheless: each has been
  -- charged for itself.
  local function refund(group, from_us, is_told)
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      for at = 1, group.charges do
        local term, place = group.terms[at], group.places[at]
        local state = state_at(place)
        if state and not term.is_free then
          local left, expires = term.refund(term, state, from_us[at])
          if left == nil then
            fail(plan, place)
          elseif left ~= true then
            keep(place, left, expires)
            if is_told then freed[place] = true end
          end
        end
      end
      admit(plan)
      next_plan(group)
    end
  end

  local function reset(group)
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      for at = 1, group.charges do
        local term, place = group.terms[at], group.places[at]
        if term.forget then
          keep(place, term.forget(state_at(place)))
        else
          keep(place, false)
        end
        freed[place] = true
      end
      admit(plan)
      next_plan(group)
    end
  end

  -- Renews or releases a lease in all the keys that hold it. A renewed one ends when one that is acquired now would.
  local function change_leases(group, lease, renews)
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      if weigh(group, plan) ~= nil then
        local new_us, new_ns
        if renews then
          new_us, new_ns = agree_on_lease(lease, group.terms, group.charges, weighed_a, weighed_b, true)
        end
        local is_changed = false
        for at = 1, group.charges do
          local term, place = group.terms[at], group.places[at]
          local state = term.change and state_at(place)
          if state then
            local left, expires = term.change(state, lease, new_us, new_ns)
            if left ~= nil then
              keep(place, left, expires)
              is_changed = true
              if not renews then freed[place] = true end
            end
          end
        end
        if is_changed then admit(plan) end
      end
      next_plan(group)
    end
  end

  return { check = check, deny = deny, refund = refund, reset = reset, change_leases = change_leases }
end
