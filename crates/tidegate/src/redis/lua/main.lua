-- The plans of a call, one after the other.
--
-- ARGV[2] is a sequence of groups. A group is plans that are alike, in one of these forms or a mixture of them: the same
-- limits on many keys, or the same plan many times.
--
--   op:1 charges:1 plans:2, then for each charge: term:2 key:2 stride:1, then what the op needs; big-endian
--
-- Plan i of a group, from 0, has in each charge the key at place (key + i * stride) of KEYS. A stride of 0 is one key for
-- all of them, and 1 a key for each. Terms and keys are counted from 1.
--
--   1 check    charges all or none
--   2 peek     answers as check does, and writes nothing
--   3 refund   gives back what was charged, the newest units first; needs charged_us:8, a little-endian double: nothing is
--              taken from windows that began after it; 0 if it is not known. Leases are released instead.
--   4 reset    makes the keys as if never seen
--   5 acquire  as check, and leases have an owner      \
--   6 renew    a lease lasts on; admitted if it does    > needs what concurrency.lua says
--   7 release  a lease is given back; admitted if so   /
--
-- A plan is charged if all its charges fit that do not look on. If one does not, only those are charged that count denied
-- attempts. A charge that costs nothing changes nothing.

local CHECK, PEEK, REFUND, RESET, ACQUIRE, RENEW, RELEASE = 1, 2, 3, 4, 5, 6, 7

local seen = call('MGET', unpack(KEYS))
-- What this call made of keys, by their place: states (false is never seen) and when they are over.
local fresh, expires_ms = {}, {}
local admitted, errors = {}, nil
local readers, terms = {}, {}

-- MGET takes a key of another type for one that is not there. Such a key is rare, so all are asked about at once.
local function mark_wrong_types()
  local missing = {}
  for place = 1, #KEYS do
    if not seen[place] then missing[#missing + 1] = KEYS[place] end
  end
  if #missing == 0 or call('EXISTS', unpack(missing)) == 0 then return end
  for place = 1, #KEYS do
    -- No algorithm has a state like this one, so none can read it.
    if not seen[place] and call('EXISTS', KEYS[place]) == 1 then seen[place] = '!type' end
  end
end

local function read_term(number)
  local bytes = ARGV[number + 2]
  local algorithm, flags = byte(bytes, 1, 2)
  local reader = readers[algorithm]
  if not reader then
    reader = define[algorithm]()
    readers[algorithm] = reader
  end
  local term = reader(bytes, flags % 2 == 1, flags % 4 >= 2, flags >= 4)
  terms[number] = term
  return term
end

local function state_at(place)
  local state = fresh[place]
  if state == nil then return seen[place] end
  return state
end

local function fail(plan, place)
  errors = errors or {}
  errors[#errors + 1] = plan
  errors[#errors + 1] = place
end

local function admit(plan)
  local word = floor(plan / 32) + 1
  admitted[word] = admitted[word] + 2 ^ (plan % 32)
end

-- Plans of one charge each: the short way that most plans take.
local function check_single(first_plan, plans, term, place, stride, writes)
  local weigh, charge, looks_on, counts_denied = term.weigh, term.charge, term.looks_on, term.counts_denied
  local charges = writes and not term.is_free
  local word = floor(first_plan / 32) + 1
  local bit = 2 ^ (first_plan % 32)
  local bits = 0
  for plan = first_plan, first_plan + plans - 1 do
    local state = fresh[place]
    if state == nil then state = seen[place] end
    local fits, a, b, c = weigh(term, state)
    if fits or looks_on and fits == false then
      bits = bits + bit
      if charges then fresh[place], expires_ms[place] = charge(term, fits, a, b, c, state) end
    elseif fits == nil then
      fail(plan, place)
    elseif counts_denied then
      if charges then fresh[place], expires_ms[place] = charge(term, fits, a, b, c, state) end
    elseif stride == 0 then
      -- Nothing has changed for those that follow, so they are denied too.
      break
    end
    place = place + stride
    bit = bit * 2
    if bit == 4294967296 then
      admitted[word] = admitted[word] + bits
      word, bit, bits = word + 1, 1, 0
    end
  end
  if bits > 0 then admitted[word] = admitted[word] + bits end
end

-- The charges of the group at hand, by their place in it: terms, places of keys, strides, and what each weighed.
local group = { terms = {}, places = {}, strides = {} }
local fit, weighed_a, weighed_b, weighed_c = {}, {}, {}, {}

-- Whether the plan is admitted; nil if a state cannot be read.
local function weigh_plan(plan, charges)
  local is_admitted = true
  for at = 1, charges do
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

local function charge_plan(charges, is_admitted)
  if is_admitted then
    -- The fences stand where other algorithms have a third number; only those of leases are looked at.
    lease_expires_us, lease_expires_ns, lease_fence = agree_on_lease(group.terms, charges, weighed_a, weighed_b)
  end
  for at = 1, charges do
    local term, place = group.terms[at], group.places[at]
    if not term.is_free and (is_admitted or term.counts_denied) then
      local state, expires =
        term.charge(term, fit[at], weighed_a[at], weighed_b[at], weighed_c[at], state_at(place))
      if state ~= nil then fresh[place], expires_ms[place] = state, expires end
    end
  end
end

local function next_plan(charges)
  local places, strides = group.places, group.strides
  for at = 1, charges do places[at] = places[at] + strides[at] end
end

local function check_plans(first_plan, plans, charges, writes)
  for plan = first_plan, first_plan + plans - 1 do
    local is_admitted = weigh_plan(plan, charges)
    if is_admitted then admit(plan) end
    if writes and is_admitted ~= nil then charge_plan(charges, is_admitted) end
    next_plan(charges)
  end
end

-- A key that cannot be read keeps what it holds; the others of its plan are given back nevertheless, as each is when
-- plans are refunded key by key.
local function refund_plans(first_plan, plans, charges, charged_us)
  for plan = first_plan, first_plan + plans - 1 do
    for at = 1, charges do
      local term, place = group.terms[at], group.places[at]
      local state = state_at(place)
      if state and not term.is_free then
        local left, expires = term.refund(term, state, charged_us)
        if left == nil then
          fail(plan, place)
        elseif left ~= true then
          fresh[place], expires_ms[place] = left, expires
        end
      end
    end
    admit(plan)
    next_plan(charges)
  end
end

local function reset_plans(first_plan, plans, charges)
  for plan = first_plan, first_plan + plans - 1 do
    for at = 1, charges do
      local term, place = group.terms[at], group.places[at]
      local left, expires = false, nil
      if term.forget then left, expires = term.forget(state_at(place)) end
      fresh[place], expires_ms[place] = left, expires
    end
    admit(plan)
    next_plan(charges)
  end
end

-- The instant up to which a renewed lease is counted from now, and its ttl, are as of one that is acquired.
local function change_leases(first_plan, plans, charges, renews)
  for plan = first_plan, first_plan + plans - 1 do
    if weigh_plan(plan, charges) ~= nil then
      local new_us, new_ns
      if renews then new_us, new_ns = agree_on_lease(group.terms, charges, weighed_a, weighed_b, true) end
      local is_changed = false
      for at = 1, charges do
        local term, place = group.terms[at], group.places[at]
        local state = term.change and state_at(place)
        if state then
          local left, expires = term.change(state, new_us, new_ns)
          if left ~= nil then fresh[place], expires_ms[place], is_changed = left, expires, true end
        end
      end
      if is_changed then admit(plan) end
    end
    next_plan(charges)
  end
end

-- Reads the charges of a group: where they end.
local function read_charges(bytes, at_byte, charges)
  for at = 1, charges do
    local term_high, term_low, key_high, key_low, stride = byte(bytes, at_byte, at_byte + 4)
    local number = term_high * 256 + term_low
    group.terms[at] = terms[number] or read_term(number)
    group.places[at], group.strides[at] = key_high * 256 + key_low, stride
    at_byte = at_byte + 5
  end
  return at_byte
end

local function decide(bytes)
  local at_byte, plan = 1, 0
  while at_byte <= #bytes do
    local op, charges, plans_high, plans_low = byte(bytes, at_byte, at_byte + 3)
    local plans = plans_high * 256 + plans_low
    at_byte = read_charges(bytes, at_byte + 4, charges)
    for word = #admitted + 1, floor((plan + plans + 31) / 32) do admitted[word] = 0 end
    if op >= ACQUIRE then
      lease_owner, lease_ttl_us, lease_ttl_ns, lease_expires_us, lease_expires_ns, lease_fence =
        unpack_bytes('<c16ddddd', bytes, at_byte)
      at_byte = at_byte + 56
    else
      lease_owner, lease_ttl_us, lease_ttl_ns = NOBODY, 0, 0
    end
    if op <= PEEK then
      local term = group.terms[1]
      if charges == 1 and not term.has_leases then
        check_single(plan, plans, term, group.places[1], group.strides[1], op == CHECK)
      else
        check_plans(plan, plans, charges, op == CHECK)
      end
    elseif op == REFUND then
      local charged_us = unpack_bytes('<d', bytes, at_byte)
      at_byte = at_byte + 8
      refund_plans(plan, plans, charges, charged_us)
    elseif op == RESET then
      reset_plans(plan, plans, charges)
    elseif op == ACQUIRE then
      check_plans(plan, plans, charges, true)
    else
      change_leases(plan, plans, charges, op == RENEW)
    end
    plan = plan + plans
  end
end

-- The only writes there are: whole values that expire at an instant, so a replica repeats them as they are. If Redis
-- refuses writes it refuses the first, and then nothing of this call was written.
local function write_states()
  for place = 1, #KEYS do
    local state = fresh[place]
    if state then
      local expires = expires_ms[place]
      if expires > EXPIRES_MS_MAX then expires = EXPIRES_MS_MAX end
      call('SET', KEYS[place], state, 'PXAT', expires + expiry_shift_ms)
    elseif state == false and seen[place] then
      call('DEL', KEYS[place])
    end
  end
end

mark_wrong_types()
decide(ARGV[2])
write_states()
return { now_us, seen, admitted, errors }
