-- concurrency: L in flight, each held by a lease that is given back or runs out.
--
-- KEYS   one: the leases
-- Term   8, flags, limit, cost, ttl_us, ttl_ns (0 to 999)
-- State  fence:7 written:7 units:8, then for each lease expires_us:7 expires_ns:2 fence:7 units:6 owner:16; big-endian
--          fence    the last that was handed out
--          written  the latest time at which anything was; this key's time does not step back behind it
--          units    the sum of all leases, a double: however much a limit that looks on is charged, it does not overflow
--        Leases stand in the order of expiry and fence. Nothing sweeps them: who looks steps over those that are over, who
--        writes drops them. A state matters until they are over and the next fence is the time again.
--
-- The ops acquire, renew, release and raise need owner:16, then as little-endian doubles ttl_us, ttl_ns, expires_us, expires_ns
-- and fence. The owner is bytes that the caller drew at random, not all of them zero, and keeps as a secret. The ttl is the
-- longest that the lease may last, 0 if there is none but that of its limits, and a millisecond at least. The rest says
-- where a lease that is renewed or released was last known to be, for the owner alone says which it is; acquire has 0
-- there. To raise a lease is to renew it and to give it this fence, if that is higher than its own: a plan whose keys are
-- in several places has one lease with the highest fence of all of them.
--
-- A plan has one lease in all its concurrency limits, with the highest fence and the shortest ttl from the latest time that
-- any of their keys has seen. Limits that look on have no say in when it ends, unless there are no others. The caller finds
-- it in the same way from the states of the reply, and so too why a lease was not there to be renewed or released.
-- A check hands out a lease whose owner is 16 zeros and whom nobody can name.

local function define_concurrency(now_us)
  local LEASES_HEAD, LEASE = 22, 38
  local NO_HEAD, NOBODY = string.rep('\0', LEASES_HEAD), string.rep('\0', 16)
  local floor, sub, pack, unpack_bytes = math.floor, string.sub, struct.pack, struct.unpack

  local function is_before(us, ns, fence, than_us, than_ns, than_fence)
    if us ~= than_us then return us < than_us end
    if ns ~= than_ns then return ns < than_ns end
    return fence < than_fence
  end

  -- The number of leases; nil if this is no state of leases.
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

  -- How many leases are over at an instant, and the units that they held.
  local function over_at(state, count, instant)
    local over, units = 0, 0
    while over < count do
      local us, ns, _, held = lease_at(state, over + 1)
      if us > instant or us == instant and ns > 0 then break end
      over, units = over + 1, units + held
    end
    return over, units
  end

  -- The first of the leases after `over` that is not before this expiry and fence; one more than there are if all are.
  local function place_of(state, over, count, us, ns, fence)
    local low, high = over + 1, count + 1
    while low < high do
      local middle = floor((low + high) / 2)
      local at_us, at_ns, at_fence = lease_at(state, middle)
      if is_before(at_us, at_ns, at_fence, us, ns, fence) then low = middle + 1 else high = middle end
    end
    return low
  end

  -- The state's own fence, time, and units, without the leases that are over: fence, instant, units, entries.
  local function settled(state)
    if not state then return 0, now_us, 0, '' end
    local fence, written, units = unpack_bytes('>I7I7d', state)
    local instant = written > now_us and written or now_us
    local over, units_over = over_at(state, lease_count(state), instant)
    return fence, instant, units - units_over, sub(state, LEASES_HEAD + LEASE * over + 1)
  end

  -- The state of these leases and when it is over; false if it is as one never seen.
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

  -- The entries with another lease where it belongs.
  local function with_lease(entries, us, ns, fence, units, owner)
    local state = NO_HEAD .. entries
    local place = place_of(state, 0, #entries / LEASE, us, ns, fence)
    local entry = pack('>I7I2I7I6', us, ns, fence, units) .. owner
    return sub(entries, 1, LEASE * (place - 1)) .. entry .. sub(entries, LEASE * (place - 1) + 1)
  end

  -- fits, the instant that counts for this key, and the fence that it would hand out.
  local function weigh(term, state)
    if not state then return term.cost <= term.limit, now_us, now_us > 1 and now_us or 1 end
    if not lease_count(state) then return nil end
    local fence, written, units = unpack_bytes('>I7I7d', state)
    local instant = written > now_us and written or now_us
    local _, units_over = over_at(state, lease_count(state), instant)
    local next_fence = fence + 1 > instant and fence + 1 or instant
    return units - units_over + term.cost <= term.limit, instant, next_fence
  end

  local function charge(term, _, _, _, _, state, lease)
    local fence, instant, units, entries = settled(state)
    entries = with_lease(entries, lease.expires_us, lease.expires_ns, lease.fence, term.cost, lease.owner)
    return write_leases(lease.fence > fence and lease.fence or fence, instant, units + term.cost, entries)
  end

  -- Where the lease is that this owner has. One that was renewed since is not where it was.
  local function find(state, lease)
    if lease.owner == NOBODY then return nil end
    local count = lease_count(state)
    local place = place_of(state, 0, count, lease.expires_us, lease.expires_ns, lease.fence)
    if place <= count and owner_at(state, place) == lease.owner then return place end
    for at = 1, count do
      if owner_at(state, at) == lease.owner then return at end
    end
    return nil
  end

  -- Takes a lease out and puts it back with a new end, if there is one: the state, or nil if it is not there.
  local function change(state, lease, new_us, new_ns)
    local fence, instant, units, entries = settled(state)
    local live = NO_HEAD .. entries
    local place = find(live, lease)
    if not place then return nil end
    local _, _, held_fence, held = lease_at(live, place)
    entries = sub(entries, 1, LEASE * (place - 1)) .. sub(entries, LEASE * place + 1)
    if new_us then
      if lease.raises and lease.fence > held_fence then held_fence = lease.fence end
      if held_fence > fence then fence = held_fence end
      entries = with_lease(entries, new_us, new_ns, held_fence, held, lease.owner)
    else
      units = units - held
    end
    return write_leases(fence, instant, units, entries)
  end

  -- Leases are given back by whoever holds them, and by nobody else.
  local function refund() return true end

  -- What a reset leaves: the last fence, as long as the time is not past it.
  local function forget(state)
    if not state or not lease_count(state) then return false end
    return write_leases((unpack_bytes('>I7', state)), now_us, 0, '')
  end

  return function(bytes, looks_on, _, is_free)
    local limit, cost, ttl_us, ttl_ns = unpack_bytes('<dddd', bytes, 3)
    return {
      weigh = weigh, charge = charge, refund = refund, forget = forget, change = change, looks_on = looks_on,
      is_free = is_free, limit = limit, cost = cost, ttl_us = ttl_us, ttl_ns = ttl_ns, has_leases = true,
    }
  end
end

-- What the concurrency limits of a plan say of its lease: when it ends and its fence, from the latest instant, the shortest
-- ttl and the highest fence. Says nothing if there are none. Instants and fences are what each of them weighed. A charge
-- that costs nothing is no part of a lease that is acquired; of one that is renewed, costs do not matter.
local function agree_on_lease(lease, terms, charges, instants, fences, renews)
  local LEASE_US_MIN = 1000
  local function is_shorter(us, ns, than_us, than_ns) return us < than_us or us == than_us and ns < than_ns end
  local instant, ttl_us, ttl_ns, fence, is_led
  for at = 1, charges do
    local term = terms[at]
    if term.has_leases and (renews or not term.is_free) then
      local leads = not term.looks_on
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
