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
--   3 refund   gives back what was charged, the newest units first; needs for each charge from_us:8, a little-endian double:
--              from when on it counts, by the state before it. Then it is taken from nothing that others used since: see the
--              file of each algorithm. 0 if it is not known. Leases are released instead.
--   4 reset    makes the keys as if never seen
--   5 acquire  as check, and leases have an owner      \
--   6 renew    a lease lasts on; admitted if it does   |  needs what concurrency.lua says
--   7 release  a lease is given back; admitted if so   |
--   8 raise    as renew, and it takes another fence    /
--   9 deny     the plan is denied elsewhere: charges only what counts denied attempts
--  10 refund   as 3, and it is published
--
-- What comes back by a release, a refund 10 or a reset is published: the channel is the key's name, the message is empty.
-- Where the user has no right to publish, nothing is said and all else is as usual.

-- MGET takes a key of another type for one that is not there. Such a key is rare, so all are asked about at once.
local function mark_wrong_types(seen)
  local missing = {}
  for place = 1, #KEYS do
    if not seen[place] then missing[#missing + 1] = KEYS[place] end
  end
  if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
  for place = 1, #KEYS do
    -- No algorithm has a state like this one, so none can read it.
    if not seen[place] and redis.call('EXISTS', KEYS[place]) == 1 then seen[place] = '!type' end
  end
end

-- Plans of one charge each: the short way that most plans take. What is admitted is noted a word at a time.
local function check_single(held, term, first_plan, plans, place, stride, writes)
  local seen, fresh, expires_ms, admitted = held.seen, held.fresh, held.expires_ms, held.admitted
  local weigh, charge, looks_on, counts_denied = term.weigh, term.charge, term.looks_on, term.counts_denied
  local charges = writes and not term.is_free
  local word, bit, bits = math.floor(first_plan / 32) + 1, 2 ^ (first_plan % 32), 0
  for plan = first_plan, first_plan + plans - 1 do
    local state = fresh[place]
    if state == nil then state = seen[place] end
    local fits, a, b, c = weigh(term, state)
    if fits == nil then
      held.errors[#held.errors + 1] = plan
      held.errors[#held.errors + 1] = place
    elseif fits or looks_on or counts_denied then
      if charges then
        local left, expires = charge(term, fits, a, b, c, state)
        -- Nothing is said of a state that stays as it is.
        if left ~= nil then fresh[place], expires_ms[place] = left, expires end
      end
      if fits or looks_on then bits = bits + bit end
    elseif stride == 0 then
      -- Nothing has changed for those that follow, so they are denied too.
      break
    end
    place, bit = place + stride, bit * 2
    if bit == 4294967296 then
      admitted[word] = admitted[word] + bits
      word, bit, bits = word + 1, 1, 0
    end
  end
  if bits > 0 then admitted[word] = admitted[word] + bits end
end

-- The only writes there are: whole values, and instants at which they expire, so a replica repeats them as they are. If
-- Redis refuses writes it refuses the MSET, and then nothing of this call was written.
local function write_states(held, expiry_shift_ms)
  -- 142,000 years ahead is as good as any later instant, and Redis can hold it.
  local EXPIRES_MS_MAX = 2 ^ 52
  local call, seen, fresh, expires_ms = redis.call, held.seen, held.fresh, held.expires_ms
  -- Older servers write a number that they are given as if it could be any double, which takes four times as long.
  local format, type = string.format, type
  local words, count = {}, 0
  for place = 1, #KEYS do
    local state = fresh[place]
    if state then
      if type(state) == 'number' then state = format('%d', state) end
      words[count + 1], words[count + 2] = KEYS[place], state
      count = count + 2
    elseif state == false and seen[place] then
      call('DEL', KEYS[place])
    end
  end
  if count == 0 then return end
  call('MSET', unpack(words, 1, count))
  for place = 1, #KEYS do
    if fresh[place] then
      local expires = expires_ms[place]
      if expires > EXPIRES_MS_MAX then expires = EXPIRES_MS_MAX end
      call('PEXPIREAT', KEYS[place], format('%d', expires + expiry_shift_ms))
    end
  end
end

local CHECK, PEEK, REFUND, RESET, ACQUIRE, RELEASE, RAISE, DENY, REFUND_TOLD =
  1, 2, 3, 4, 5, 7, 8, 9, 10

-- What is known of the keys, by their place: states before this call, states that it made (false is never seen) and when
-- those are over; and what is said of the plans. plans.lua adds `freed`: the places of keys of which units have come back.
local held = { seen = redis.call('MGET', unpack(KEYS)), fresh = {}, expires_ms = {}, admitted = {}, errors = {} }
mark_wrong_types(held.seen)

-- By an algorithm's number, what reads its terms; and by their number the terms that were read.
local readers, terms
-- Of the group at hand, for each charge.
local group_terms, group_places, group_strides
local plans_ops, windows, ledger

local bytes, byte, floor = ARGV[2], string.byte, math.floor
local at_byte, plan = 1, 0
while at_byte <= #bytes do
  local op, charges, plans_high, plans_low, term_high, term_low, place_high, place_low, stride =
    byte(bytes, at_byte, at_byte + 8)
  local plans = plans_high * 256 + plans_low
  for word = #held.admitted + 1, floor((plan + plans + 31) / 32) do held.admitted[word] = 0 end

  local first_term = ARGV[term_high * 256 + term_low + 2]
  local algorithm, flags = byte(first_term, 1, 2)
  -- Any of the buckets, whether it costs nothing or not.
  if charges == 1 and op <= PEEK and algorithm <= 3 and flags % 4 == 0 then
    local writes = op == CHECK and flags == 0
    local place = place_high * 256 + place_low
    check_gcra(held, first_term, plan, plans, place, stride, writes, now_us, read_fine_arrival, write_arrival)
    at_byte = at_byte + 9
  else
    if not terms then
      readers, terms, group_terms, group_places, group_strides = {}, {}, {}, {}, {}
    end
    at_byte = at_byte + 4
    for at = 1, charges do
      term_high, term_low, place_high, place_low, stride = byte(bytes, at_byte, at_byte + 4)
      at_byte = at_byte + 5
      local number = term_high * 256 + term_low
      local term = terms[number]
      if not term then
        local term_bytes = ARGV[number + 2]
        algorithm, flags = byte(term_bytes, 1, 2)
        local reader = readers[algorithm]
        if not reader then
          if algorithm >= 4 and algorithm <= 6 then windows = windows or define_windows() end
          if algorithm == 6 or algorithm == 7 then ledger = ledger or define_ledger() end
          if algorithm <= 3 then
            reader = define_gcra(now_us, read_fine_arrival, write_arrival)
          elseif algorithm == 4 then
            reader = define_fixed_window(now_us, windows)
          elseif algorithm == 5 then
            reader = define_sliding_window(now_us, windows)
          elseif algorithm == 6 then
            reader = define_sub_windows(now_us, windows, ledger)
          elseif algorithm == 7 then
            reader = define_sliding_log(now_us, ledger)
          elseif algorithm == 8 then
            reader = define_concurrency(now_us)
          elseif algorithm == 9 then
            reader = define_gcra_wide(now_us, read_fine_arrival)
          else
            reader = define_nothing()
          end
          readers[algorithm] = reader
        end
        term = reader(term_bytes, flags % 2 == 1, flags % 4 >= 2, flags >= 4)
        terms[number] = term
      end
      group_terms[at], group_places[at], group_strides[at] = term, place_high * 256 + place_low, stride
    end

    if charges == 1 and op <= PEEK and not group_terms[1].has_leases then
      check_single(held, group_terms[1], plan, plans, group_places[1], group_strides[1], op == CHECK)
    else
      plans_ops = plans_ops or define_plans(held, agree_on_lease)
      local group = {
        first_plan = plan, plans = plans, charges = charges,
        terms = group_terms, places = group_places, strides = group_strides,
      }
      if op <= PEEK then
        plans_ops.check(group, op == CHECK)
      elseif op == REFUND or op == REFUND_TOLD then
        local from_us = {}
        for at = 1, charges do
          from_us[at] = struct.unpack('<d', bytes, at_byte)
          at_byte = at_byte + 8
        end
        plans_ops.refund(group, from_us, op == REFUND_TOLD)
      elseif op == RESET then
        plans_ops.reset(group)
      elseif op == DENY then
        plans_ops.deny(group)
      else
        local owner, ttl_us, ttl_ns, expires_us, expires_ns, fence = struct.unpack('<c16ddddd', bytes, at_byte)
        at_byte = at_byte + 56
        local lease = {
          owner = owner, ttl_us = ttl_us, ttl_ns = ttl_ns, expires_us = expires_us, expires_ns = expires_ns, fence = fence,
          raises = op == RAISE,
        }
        if op == ACQUIRE then plans_ops.check(group, true, lease) else plans_ops.change_leases(group, lease, op ~= RELEASE) end
      end
    end
  end
  plan = plan + plans
end

write_states(held, expiry_shift_ms)
if held.freed then
  for place in pairs(held.freed) do redis.pcall('PUBLISH', KEYS[place], '') end
end

-- One flat reply, made of what MGET said: every table in a reply costs Redis more than the numbers in it.
local reply = held.seen
local length = #KEYS + 1
reply[length] = now_us
for word = 1, #held.admitted do reply[length + word] = held.admitted[word] end
length = length + #held.admitted
for at = 1, #held.errors do reply[length + at] = held.errors[at] end
return reply
