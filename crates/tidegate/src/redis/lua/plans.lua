-- Plans of several charges, and all ops except the check of one charge, which is in main.lua.
--
-- A plan is charged if all its enforced charges fit. If one does not fit, only limits that count denied
-- attempts are charged. A limit that counts them only if it is over itself is spared if only others are over,
-- enforced or not. A charge without a cost changes nothing.

-- `keys_state` is the state of the call in main.lua. Each function takes a group: its first plan, the number of
-- plans and charges, and for each charge a term, the index of its key and the stride to the key of the next
-- plan.
local function define_plans(keys_state, agree_on_lease)
  local floor, NO_OWNER = math.floor, string.rep('\0', 16)
  local before, after, expires_ms = keys_state.before, keys_state.after, keys_state.expires_ms
  local admitted, errors = keys_state.admitted, keys_state.errors
  local published = {}
  keys_state.published = published
  -- What `decide` returned for each charge of the current plan.
  local charge_fits, decided_a, decided_b, decided_c = {}, {}, {}, {}

  local function state_at(key_index)
    local state = after[key_index]
    if state == nil then return before[key_index] end
    return state
  end

  local function set_state(key_index, state, expires)
    after[key_index], expires_ms[key_index] = state, expires
  end

  local function fail(plan, key_index)
    errors[#errors + 1] = plan
    errors[#errors + 1] = key_index
  end

  local function admit(plan)
    local word = floor(plan / 32) + 1
    admitted[word] = admitted[word] + 2 ^ (plan % 32)
  end

  local function next_plan(group)
    for at = 1, group.charges do group.key_indexes[at] = group.key_indexes[at] + group.strides[at] end
  end

  -- Whether the plan is admitted; nil if a state cannot be read. Also whether a charge does not fit.
  local function decide(group, plan)
    local is_admitted, is_any_over = true, false
    for at = 1, group.charges do
      local term, key_index = group.terms[at], group.key_indexes[at]
      local fits
      fits, decided_a[at], decided_b[at], decided_c[at] = term.decide(term, state_at(key_index))
      if fits == nil then
        fail(plan, key_index)
        return nil
      end
      charge_fits[at] = fits
      if not fits then
        is_any_over = true
        if not term.is_observed then is_admitted = false end
      end
    end
    return is_admitted, is_any_over
  end

  local function charge(group, is_admitted, is_any_over, lease)
    if is_admitted and lease then
      lease.expires_us, lease.expires_ns, lease.fence =
        agree_on_lease(lease, group.terms, group.charges, decided_a, decided_b)
    end
    for at = 1, group.charges do
      local term, key_index = group.terms[at], group.key_indexes[at]
      local is_due = is_admitted or term.counts_denied
      if term.counts_if_over and is_any_over and charge_fits[at] then is_due = false end
      if is_due and not term.is_zero_cost then
        local state, expires =
          term.charge(term, charge_fits[at], decided_a[at], decided_b[at], decided_c[at], state_at(key_index), lease)
        if state ~= nil then set_state(key_index, state, expires) end
      end
    end
  end

  -- `lease` has the arguments of the op. A check that takes leases has one without an owner.
  local function check(group, writes, lease)
    for at = 1, group.charges do
      if group.terms[at].has_leases and not lease then lease = { owner = NO_OWNER, ttl_us = 0, ttl_ns = 0 } end
    end
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      local is_admitted, is_any_over = decide(group, plan)
      if is_admitted then admit(plan) end
      if writes and is_admitted ~= nil then charge(group, is_admitted, is_any_over, lease) end
      next_plan(group)
    end
  end

  -- Counts a denied attempt. A charge needs the results of `decide`.
  local function deny(group)
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      if decide(group, plan) ~= nil then charge(group, false, true) end
      next_plan(group)
    end
  end

  -- A key that cannot be read stays as it is. The other keys of its plan are refunded nevertheless, because
  -- each was charged independently.
  local function refund(group, from_us, is_published)
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      for at = 1, group.charges do
        local term, key_index = group.terms[at], group.key_indexes[at]
        local state = state_at(key_index)
        if state and not term.is_zero_cost then
          local new_state, expires = term.refund(term, state, from_us[at])
          if new_state == nil then
            fail(plan, key_index)
          elseif new_state ~= true then
            set_state(key_index, new_state, expires)
            if is_published then published[key_index] = true end
          end
        end
      end
      admit(plan)
      next_plan(group)
    end
  end

  -- Counts units that were used since `from_us`, whether they fit or not. A limit that cannot do that is an error.
  local function count(group, from_us)
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      for at = 1, group.charges do
        local term, key_index = group.terms[at], group.key_indexes[at]
        if not term.count then
          fail(plan, key_index)
        elseif not term.is_zero_cost then
          local new_state, expires = term.count(term, state_at(key_index), from_us)
          if new_state == nil then
            fail(plan, key_index)
          elseif new_state ~= true then
            set_state(key_index, new_state, expires)
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
        local term, key_index = group.terms[at], group.key_indexes[at]
        if term.reset then
          set_state(key_index, term.reset(state_at(key_index)))
        else
          set_state(key_index, false)
        end
        published[key_index] = true
      end
      admit(plan)
      next_plan(group)
    end
  end

  -- Renews or releases a lease in all keys that hold it. A renewed lease ends when one acquired now would.
  local function change_leases(group, lease, renews)
    for plan = group.first_plan, group.first_plan + group.plans - 1 do
      if decide(group, plan) ~= nil then
        local new_us, new_ns
        if renews then
          new_us, new_ns = agree_on_lease(lease, group.terms, group.charges, decided_a, decided_b, true)
        end
        local is_changed = false
        for at = 1, group.charges do
          local term, key_index = group.terms[at], group.key_indexes[at]
          local state = term.change and state_at(key_index)
          if state then
            local new_state, expires = term.change(state, lease, new_us, new_ns)
            if new_state ~= nil then
              set_state(key_index, new_state, expires)
              is_changed = true
              if not renews then published[key_index] = true end
            end
          end
        end
        if is_changed then admit(plan) end
      end
      next_plan(group)
    end
  end

  return {
    check = check, deny = deny, refund = refund, count = count, reset = reset, change_leases = change_leases,
  }
end
