-- concurrency: L in flight, each held by a lease until it is released or expires.
--
-- KEYS   one: the leases
-- Term   8, flags, limit, cost, ttl_us, ttl_ns (0 to 999)
-- State  fence:7 written:7 units:8, then for each lease expires_us:7 expires_ns:2 fence:7 units:6 owner:16; big-endian
--          fence    the last fencing token that was handed out
--          written  the latest time of any change; this key's time does not step back behind it
--          units    the sum of all leases, a double: charges of an observed limit cannot overflow it
--        Leases are ordered by expiry and fencing token. Nothing sweeps expired ones: readers skip them and
--        writers drop them. A state matters until all leases expired and the next token is the time again.
--
-- The ops acquire, renew, release and raise have these arguments: owner:16, then as little-endian doubles
-- ttl_us, ttl_ns, expires_us, expires_ns and fence. The owner is random bytes that the caller keeps secret,
-- not all of them zero. The ttl is the longest time for the lease, at least a millisecond; 0 means that only
-- the ttl of its limits counts. The rest is a hint where a lease to renew or release was last, because only the
-- owner identifies it; acquire has 0 there. To raise a lease is to renew it and to give it this fencing token
-- if that is higher than its own: a plan whose keys are on several servers has one lease with the highest
-- fencing token of all of them.
--
-- A plan has one lease in all its concurrency limits, with the highest fencing token and the shortest ttl,
-- counted from the latest time that any of their keys has seen. Observed limits do not decide when it ends,
-- unless there are no others. The caller computes the same from the states of the reply, and also why a lease
-- to renew or release was not found. A check hands out a lease whose owner is 16 zeros, which no caller can
-- name.

local function define_concurrency(now_us)
  local LEASES_HEAD, LEASE = 22, 38
  local NO_HEAD, NO_OWNER = string.rep('\0', LEASES_HEAD), string.rep('\0', 16)
  local floor, sub, pack, unpack_bytes = math.floor, string.sub, struct.pack, struct.unpack

  local function is_before(us, ns, fence, than_us, than_ns, than_fence)
    if us ~= than_us then return us < than_us end
    if ns ~= than_ns then return ns < than_ns end
    return fence < than_fence
  end

  -- The number of leases; nil if the state is not a list of leases.
  local function lease_count(state)
    local count = (#state - LEASES_HEAD) / LEASE
    if count >= 0 and count % 1 == 0 then return count end
    return nil
  end

  local function lease_at(state, at)
    return unpack_bytes('>I7I2I7I6', state, LEASES_HEAD + LEASE * (at - 1) + 1)
  end

  local function owner_at(state, at)
    local ends = LEASES_HEAD + LEASE * at
    return sub(state, ends - 15, ends)
  end

  -- How many leases expired by an instant, and their units.
  local function expired_at(state, count, instant)
    local expired, units = 0, 0
    while expired < count do
      local us, ns, _, units_held = lease_at(state, expired + 1)
      if us > instant or us == instant and ns > 0 then break end
      expired, units = expired + 1, units + units_held
    end
    return expired, units
  end

  -- The first lease after `over` that is not before this expiry and fencing token; the count + 1 if there is
  -- none.
  local function insert_position(state, expired, count, us, ns, fence)
    local low, high = expired + 1, count + 1
    while low < high do
      local middle = floor((low + high) / 2)
      local at_us, at_ns, at_fence = lease_at(state, middle)
      if is_before(at_us, at_ns, at_fence, us, ns, fence) then low = middle + 1 else high = middle end
    end
    return low
  end

  -- The state without its expired leases: fence, instant, units, entries.
  local function without_expired(state)
    if not state then return 0, now_us, 0, '' end
    local fence, written, units = unpack_bytes('>I7I7d', state)
    local instant = written > now_us and written or now_us
    local expired, units_expired = expired_at(state, lease_count(state), instant)
    return fence, instant, units - units_expired, sub(state, LEASES_HEAD + LEASE * expired + 1)
  end

  -- The state of these leases and when it expires; false if it equals a key never seen.
  local function write_leases(fence, instant, units, entries)
    local state = pack('>I7I7d', fence, instant, units) .. entries
    local ends_us = fence + 1
    if entries ~= '' then
      local us, ns = lease_at(state, #entries / LEASE)
      if ns > 0 then us = us + 1 end
      if us > ends_us then ends_us = us end
    elseif ends_us <= instant then
      return false
    end
    return state, floor((ends_us + 999) / 1000)
  end

  -- The entries with another lease inserted in order.
  local function with_lease(entries, us, ns, fence, units, owner)
    local state = NO_HEAD .. entries
    local position = insert_position(state, 0, #entries / LEASE, us, ns, fence)
    local entry = pack('>I7I2I7I6', us, ns, fence, units) .. owner
    return sub(entries, 1, LEASE * (position - 1)) .. entry .. sub(entries, LEASE * (position - 1) + 1)
  end

  -- Whether the cost fits, the time that counts for this key, and the fencing token that it would hand out.
  local function decide(term, state)
    if not state then return term.cost <= term.limit, now_us, now_us > 1 and now_us or 1 end
    if not lease_count(state) then return nil end
    local fence, written, units = unpack_bytes('>I7I7d', state)
    local instant = written > now_us and written or now_us
    local _, units_expired = expired_at(state, lease_count(state), instant)
    local next_fence = fence + 1 > instant and fence + 1 or instant
    return units - units_expired + term.cost <= term.limit, instant, next_fence
  end

  local function charge(term, _, _, _, _, state, lease)
    local fence, instant, units, entries = without_expired(state)
    entries = with_lease(entries, lease.expires_us, lease.expires_ns, lease.fence, term.cost, lease.owner)
    return write_leases(lease.fence > fence and lease.fence or fence, instant, units + term.cost, entries)
  end

  -- The index of this owner's lease. A lease that was renewed since has another position.
  local function find(state, lease)
    if lease.owner == NO_OWNER then return nil end
    local count = lease_count(state)
    local position = insert_position(state, 0, count, lease.expires_us, lease.expires_ns, lease.fence)
    if position <= count and owner_at(state, position) == lease.owner then return position end
    for at = 1, count do
      if owner_at(state, at) == lease.owner then return at end
    end
    return nil
  end

  -- Removes a lease and inserts it with a new end, if there is one. Returns the state, or nil without a
  -- lease.
  local function change(state, lease, new_us, new_ns)
    local fence, instant, units, entries = without_expired(state)
    local live = NO_HEAD .. entries
    local position = find(live, lease)
    if not position then return nil end
    local _, _, lease_fence, units_held = lease_at(live, position)
    entries = sub(entries, 1, LEASE * (position - 1)) .. sub(entries, LEASE * position + 1)
    if new_us then
      if lease.raises and lease.fence > lease_fence then lease_fence = lease.fence end
      if lease_fence > fence then fence = lease_fence end
      entries = with_lease(entries, new_us, new_ns, lease_fence, units_held, lease.owner)
    else
      units = units - units_held
    end
    return write_leases(fence, instant, units, entries)
  end

  -- Only its owner can release a lease, so a refund does nothing.
  local function refund() return true end

  -- What a reset leaves: the last fencing token, until the time has passed it.
  local function reset(state)
    if not state or not lease_count(state) then return false end
    return write_leases((unpack_bytes('>I7', state)), now_us, 0, '')
  end

  return function(bytes, is_observed, _, is_zero_cost)
    local limit, cost, ttl_us, ttl_ns = unpack_bytes('<dddd', bytes, 3)
    return {
      decide = decide, charge = charge, refund = refund, reset = reset, change = change, is_observed = is_observed,
      is_zero_cost = is_zero_cost, limit = limit, cost = cost, ttl_us = ttl_us, ttl_ns = ttl_ns, has_leases = true,
    }
  end
end

-- The lease of a plan, as its concurrency limits decide: its end and its fencing token, from the latest
-- instant, the shortest ttl and the highest fencing token. Does nothing without such limits. Instants and
-- fences are those that each limit returned. A charge that costs nothing is not part of an acquired lease;
-- for a renewal, costs do not matter.
local function agree_on_lease(lease, terms, charges, instants, fences, renews)
  local LEASE_US_MIN = 1000
  local function is_shorter(us, ns, than_us, than_ns) return us < than_us or us == than_us and ns < than_ns end
  local instant, ttl_us, ttl_ns, fence, is_led
  for at = 1, charges do
    local term = terms[at]
    if term.has_leases and (renews or not term.is_zero_cost) then
      local leads = not term.is_observed
      if not instant or leads and not is_led then
        instant, ttl_us, ttl_ns, is_led = instants[at], term.ttl_us, term.ttl_ns, leads
      elseif leads == is_led then
        if instants[at] > instant then instant = instants[at] end
        if is_shorter(term.ttl_us, term.ttl_ns, ttl_us, ttl_ns) then ttl_us, ttl_ns = term.ttl_us, term.ttl_ns end
      end
      if not fence or fences[at] > fence then fence = fences[at] end
    end
  end
  if not instant then return nil end
  if lease.ttl_us + lease.ttl_ns > 0 then
    local most_us, most_ns = lease.ttl_us, lease.ttl_ns
    if most_us < LEASE_US_MIN then most_us, most_ns = LEASE_US_MIN, 0 end
    if is_shorter(most_us, most_ns, ttl_us, ttl_ns) then ttl_us, ttl_ns = most_us, most_ns end
  end
  return instant + ttl_us, ttl_ns, fence
end
