-- The usage log, oldest entry first: the state of sliding_log and sub_windows.
--
--   base:6 before:6, then for each entry stamp:7 total:6; big-endian
--
-- A stamp is a time or the number of a sub-window, relative to the base. A total is the running total up to
-- and including its entry, and `before` is the total before the first entry. So the usage of any suffix is
-- one subtraction, and the first entry that counts is found by binary search: no decision depends on the
-- number of entries. Totals wrap at 2^48. Their differences never do, because a usage log holds less than
-- 2^42 units. A usage log has at least one entry.

local function define_usage_log()
  local LOG_HEAD, LOG_ENTRY = 12, 13
  local TOTAL_END = 2 ^ 48
  -- Equal to the bound in the core, which replays this.
  local REWRITTEN_ENTRIES_MAX = 1024
  local floor, sub, pack, unpack_bytes = math.floor, string.sub, struct.pack, struct.unpack

  -- The number of entries; nil if the state is not a usage log. The tag for a key of another type is too
  -- short.
  local function log_length(state)
    local length = (#state - LOG_HEAD) / LOG_ENTRY
    if length >= 1 and length % 1 == 0 then return length end
    return nil
  end

  local function log_entry(state, at)
    return unpack_bytes('>I7I6', state, LOG_HEAD + LOG_ENTRY * (at - 1) + 1)
  end

  -- The running total before an entry.
  local function total_before(state, at)
    if at > 1 then
      local _, total = log_entry(state, at - 1)
      return total
    end
    return (unpack_bytes('>I6', state, 7))
  end

  local function total_between(earlier, later)
    local units = later - earlier
    if units < 0 then return units + TOTAL_END end
    return units
  end

  -- The first entry at `oldest` or later; length + 1 if there is none.
  local function first_since(state, length, oldest)
    local low, high = 1, length + 1
    while low < high do
      local middle = floor((low + high) / 2)
      if log_entry(state, middle) < oldest then low = middle + 1 else high = middle end
    end
    return low
  end

  -- The first entry after which at most `limit` units were used, given that `total` is the newest total.
  -- Earlier entries do not matter: while one of them is in a window, so is everything after it, which exceeds
  -- the limit without it.
  local function first_relevant(state, first, length, total, limit)
    local low, high = first, length + 1
    while low < high do
      local middle = floor((low + high) / 2)
      local _, before = log_entry(state, middle)
      if total_between(before, total) > limit then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Units used at `oldest` or later.
  local function log_used(state, length, oldest)
    local first = first_since(state, length, oldest)
    if first > length then return 0 end
    local _, total = log_entry(state, length)
    return total_between(total_before(state, first), total)
  end

  -- The usage log with `units` more at `stamp`, which is not before the newest entry, without entries that do
  -- not matter any more. An entry stores at most limit + 1 units, which is over the limit whatever the
  -- excess.
  local function log_add(state, base, stamp, units, oldest, limit)
    if not state then
      return pack('>I6I6I7I6', base, 0, stamp, units > limit and limit + 1 or units)
    end
    local length = log_length(state)
    local first = first_since(state, length, oldest)
    local newest, total = log_entry(state, length)
    local entry_units, kept_length = 0, length
    -- Extend an entry with the same stamp, or else add a new one.
    if newest == stamp then
      local before = total_before(state, length)
      entry_units, kept_length, total = total_between(before, total), length - 1, before
    end
    entry_units = entry_units + units
    if entry_units > limit then entry_units = limit + 1 end
    total = (total + entry_units) % TOTAL_END
    first = first_relevant(state, first, kept_length, total, limit)
    local entries = sub(state, LOG_HEAD + LOG_ENTRY * (first - 1) + 1, LOG_HEAD + LOG_ENTRY * kept_length)
    return pack('>I6I6', base, total_before(state, first)) .. entries .. pack('>I7I6', stamp, total)
  end

  -- The usage log without `units`, taken from the newest entries; false if nothing is left.
  local function refund_newest(state, units)
    for at = log_length(state), 1, -1 do
      local stamp, total = log_entry(state, at)
      local entry_units = total_between(total_before(state, at), total)
      if entry_units > units then
        local kept = sub(state, 1, LOG_HEAD + LOG_ENTRY * (at - 1))
        return kept .. pack('>I7I6', stamp, (total - units) % TOTAL_END), stamp
      end
      units = units - entry_units
      -- Nothing more to take, and this entry is gone: the entries before it stay.
      if units == 0 and at > 1 then
        return sub(state, 1, LOG_HEAD + LOG_ENTRY * (at - 1)), (log_entry(state, at - 1))
      end
    end
    return false
  end

  -- Removes up to `units` from the entry at `stamp` and returns the new usage log. Returns false if the log is
  -- empty then, and true if nothing was removed. A refund rewrites all later entries. If there are
  -- REWRITTEN_ENTRIES_MAX or more, it removes nothing, because Redis would be busy for too long.
  local function refund_at(state, stamp, units)
    local length = log_length(state)
    local at = first_since(state, length, stamp)
    if at > length or length - at >= REWRITTEN_ENTRIES_MAX then return true end
    local entry_stamp, total = log_entry(state, at)
    if entry_stamp ~= stamp then return true end
    local entry_units = total_between(total_before(state, at), total)
    local first = at
    if units >= entry_units then
      if length == 1 then return false end
      units, first = entry_units, at + 1
    end
    local left = { sub(state, 1, LOG_HEAD + LOG_ENTRY * (at - 1)) }
    for later = first, length do
      entry_stamp, total = log_entry(state, later)
      left[#left + 1] = pack('>I7I6', entry_stamp, (total - units) % TOTAL_END)
    end
    if first > length then entry_stamp = log_entry(state, at - 1) end
    return table.concat(left), entry_stamp
  end

  return {
    length = log_length, entry = log_entry, used = log_used, add = log_add, refund = refund_newest,
    refund_at = refund_at,
  }
end
