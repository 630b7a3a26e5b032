-- Decides the plans of a call, one after the other.
--
-- ARGV[2] is a sequence of groups. A group consists of similar plans: the same limits on many keys, the same
-- plan many times, or a mixture.
--
--   op:1 charges:2 plans:2, then for each charge: term:2 key:2 stride:1, then the op's arguments; big-endian
--
-- In plan i of a group, from 0, each charge has the key (key + i * stride) of KEYS. A stride of 0 means one
-- key for all plans, and 1 means one key for each. Terms and keys are counted from 1.
--
--   1 check    charges all or none
--   2 peek     decides like check, and writes nothing
--   3 refund   refunds a charge, the newest units first. Arguments for each charge: from_us:8, a little-endian
--              double: when the charge started to count, from the state before it, or 0 if unknown. If known,
--              units that were used since then are not refunded: see each algorithm. Leases are released instead.
--   4 reset    makes the keys as if never seen
--   5 acquire  like check, and leases have an owner               \
--   6 renew    extends a lease; admitted if the lease is found    |  for the arguments see concurrency.lua
--   7 release  releases a lease; admitted if the lease is found   |
--   8 raise    like renew, and sets a higher fencing token        /
--   9 deny     the plan was denied elsewhere: charges only limits that count denied attempts
--  10 refund   like 3, and published
--  11 count    charges whether it fits or not. Argument: ago_us:8, a little-endian double: how long ago the units
--              were used
--
-- A release, a refund 10 and a reset are published: the channel is the key's name, the message is empty. If
-- the user has no permission to publish, nothing is published and everything else works as usual.

-- MGET treats a key of another type as missing. Such keys are rare, so one EXISTS covers all missing keys.
local function mark_wrong_types(before)
  local missing = {}
  for key_index = 1, #KEYS do
    if not before[key_index] then missing[#missing + 1] = KEYS[key_index] end
  end
  if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
  for key_index = 1, #KEYS do
    -- No algorithm can read this state.
    if not before[key_index] and redis.call('EXISTS', KEYS[key_index]) == 1 then before[key_index] = '!type' end
  end
end

-- The fast path for plans of one charge. Admitted plans are recorded one word at a time.
local function check_single(keys_state, term, first_plan, plans, key_index, stride, writes)
  local before, after = keys_state.before, keys_state.after
  local expires_ms, admitted = keys_state.expires_ms, keys_state.admitted
  local decide, charge, is_observed, counts_denied = term.decide, term.charge, term.is_observed, term.counts_denied
  local charges = writes and not term.is_zero_cost
  local word, bit, bits = math.floor(first_plan / 32) + 1, 2 ^ (first_plan % 32), 0
  for plan = first_plan, first_plan + plans - 1 do
    local state = after[key_index]
    if state == nil then state = before[key_index] end
    local fits, a, b, c = decide(term, state)
    if fits == nil then
      keys_state.errors[#keys_state.errors + 1] = plan
      keys_state.errors[#keys_state.errors + 1] = key_index
    elseif fits or is_observed or counts_denied then
      if charges then
        local new_state, expires = charge(term, fits, a, b, c, state)
        -- Charge returns nil for a state that does not change.
        if new_state ~= nil then after[key_index], expires_ms[key_index] = new_state, expires end
      end
      if fits or is_observed then bits = bits + bit end
    elseif stride == 0 then
      -- Nothing has changed for the following plans, so they are denied too.
      break
    end
    key_index, bit = key_index + stride, bit * 2
    if bit == 4294967296 then
      admitted[word] = admitted[word] + bits
      word, bit, bits = word + 1, 1, 0
    end
  end
  if bits > 0 then admitted[word] = admitted[word] + bits end
end

-- The only writes: whole values and absolute expiries, so a replica repeats them as they are. If Redis
-- refuses writes, it refuses the MSET, and then nothing of this call was written.
local function write_states(keys_state, expiry_shift_ms)
  -- 142,000 years ahead is as good as any later instant, and Redis can store it.
  local EXPIRES_MS_MAX = 2 ^ 52
  local call, before, after, expires_ms = redis.call, keys_state.before, keys_state.after, keys_state.expires_ms
  -- Older servers format a number as a double, which takes four times as long as an integer.
  local format, type = string.format, type
  local arguments, count = {}, 0
  for key_index = 1, #KEYS do
    local state = after[key_index]
    if state then
      if type(state) == 'number' then state = format('%d', state) end
      arguments[count + 1], arguments[count + 2] = KEYS[key_index], state
      count = count + 2
    elseif state == false and before[key_index] then
      call('DEL', KEYS[key_index])
    end
  end
  if count == 0 then return end
  call('MSET', unpack(arguments, 1, count))
  for key_index = 1, #KEYS do
    if after[key_index] then
      local expires = expires_ms[key_index]
      if expires > EXPIRES_MS_MAX then expires = EXPIRES_MS_MAX end
      call('PEXPIREAT', KEYS[key_index], format('%d', expires + expiry_shift_ms))
    end
  end
end

local CHECK, PEEK, REFUND, RESET, ACQUIRE, RELEASE, RAISE, DENY, REFUND_PUBLISHED, COUNT =
  1, 2, 3, 4, 5, 7, 8, 9, 10, 11

-- The state of this call. By key index: the state before the call, the new state after it (false means never
-- seen), and when that expires. Also the admitted plans and the errors. plans.lua adds `published`: the keys
-- to publish.
local keys_state = {
  before = redis.call('MGET', unpack(KEYS)), after = {}, expires_ms = {}, admitted = {}, errors = {},
}
mark_wrong_types(keys_state.before)

-- The reader for the terms of an algorithm, by its number, and the terms that were read, by theirs.
local readers, terms
-- For each charge of the current group.
local group_terms, group_key_indexes, group_strides
local plans_ops, windows, usage_log

local bytes, byte, floor = ARGV[2], string.byte, math.floor
local offset, plan = 1, 0
while offset <= #bytes do
  local op, charges_high, charges_low, plans_high, plans_low, term_high, term_low, key_high, key_low, stride =
    byte(bytes, offset, offset + 9)
  local charges, plans = charges_high * 256 + charges_low, plans_high * 256 + plans_low
  for word = #keys_state.admitted + 1, floor((plan + plans + 31) / 32) do keys_state.admitted[word] = 0 end

  local first_term = ARGV[term_high * 256 + term_low + 2]
  local algorithm, flags = byte(first_term, 1, 2)
  -- Any of the buckets, with or without a cost.
  if charges == 1 and op <= PEEK and algorithm <= 3 and flags % 4 == 0 then
    local writes = op == CHECK and flags == 0
    local key_index = key_high * 256 + key_low
    check_gcra(keys_state, first_term, plan, plans, key_index, stride, writes, now_us, read_fine_arrival, write_arrival)
    offset = offset + 10
  else
    if not terms then
      readers, terms, group_terms, group_key_indexes, group_strides = {}, {}, {}, {}, {}
    end
    offset = offset + 5
    for at = 1, charges do
      term_high, term_low, key_high, key_low, stride = byte(bytes, offset, offset + 4)
      offset = offset + 5
      local number = term_high * 256 + term_low
      local term = terms[number]
      if not term then
        local term_bytes = ARGV[number + 2]
        algorithm, flags = byte(term_bytes, 1, 2)
        local reader = readers[algorithm]
        if not reader then
          if algorithm >= 4 and algorithm <= 6 then windows = windows or define_windows() end
          if algorithm == 6 or algorithm == 7 then usage_log = usage_log or define_usage_log() end
          if algorithm <= 3 then
            reader = define_gcra(now_us, read_fine_arrival, write_arrival)
          elseif algorithm == 4 then
            reader = define_fixed_window(now_us, windows)
          elseif algorithm == 5 then
            reader = define_sliding_window(now_us, windows)
          elseif algorithm == 6 then
            reader = define_sub_windows(now_us, windows, usage_log)
          elseif algorithm == 7 then
            reader = define_sliding_log(now_us, usage_log)
          elseif algorithm == 8 then
            reader = define_concurrency(now_us)
          elseif algorithm == 9 then
            reader = define_gcra_wide(now_us, read_fine_arrival)
          else
            reader = define_zero_limit()
          end
          readers[algorithm] = reader
        end
        term = reader(term_bytes, flags % 2 == 1, flags % 4 >= 2, flags % 8 >= 4)
        term.counts_if_over = flags >= 8
        terms[number] = term
      end
      group_terms[at], group_key_indexes[at], group_strides[at] = term, key_high * 256 + key_low, stride
    end

    if charges == 1 and op <= PEEK and not group_terms[1].has_leases then
      check_single(keys_state, group_terms[1], plan, plans, group_key_indexes[1], group_strides[1], op == CHECK)
    else
      plans_ops = plans_ops or define_plans(keys_state, agree_on_lease)
      local group = {
        first_plan = plan, plans = plans, charges = charges,
        terms = group_terms, key_indexes = group_key_indexes, strides = group_strides,
      }
      if op <= PEEK then
        plans_ops.check(group, op == CHECK)
      elseif op == COUNT then
        plans_ops.count(group, math.max(now_us - struct.unpack('<d', bytes, offset), 0))
        offset = offset + 8
      elseif op == REFUND or op == REFUND_PUBLISHED then
        local from_us = {}
        for at = 1, charges do
          from_us[at] = struct.unpack('<d', bytes, offset)
          offset = offset + 8
        end
        plans_ops.refund(group, from_us, op == REFUND_PUBLISHED)
      elseif op == RESET then
        plans_ops.reset(group)
      elseif op == DENY then
        plans_ops.deny(group)
      else
        local owner, ttl_us, ttl_ns, expires_us, expires_ns, fence = struct.unpack('<c16ddddd', bytes, offset)
        offset = offset + 56
        local lease = {
          owner = owner, ttl_us = ttl_us, ttl_ns = ttl_ns,
          expires_us = expires_us, expires_ns = expires_ns, fence = fence, raises = op == RAISE,
        }
        if op == ACQUIRE then
          plans_ops.check(group, true, lease)
        else
          plans_ops.change_leases(group, lease, op ~= RELEASE)
        end
      end
    end
  end
  plan = plan + plans
end

write_states(keys_state, expiry_shift_ms)
if keys_state.published then
  for key_index in pairs(keys_state.published) do redis.pcall('PUBLISH', KEYS[key_index], '') end
end

-- One flat reply that reuses the table of MGET: every further table in a reply costs Redis more than its
-- numbers.
local reply = keys_state.before
local length = #KEYS + 1
reply[length] = now_us
for word = 1, #keys_state.admitted do reply[length + word] = keys_state.admitted[word] end
length = length + #keys_state.admitted
for at = 1, #keys_state.errors do reply[length + at] = keys_state.errors[at] end
return reply
