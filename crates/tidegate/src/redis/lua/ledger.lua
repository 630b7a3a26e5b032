-- What was used, and when, oldest first: the state of sliding_log and sub_windows.
--
--   base:6 before:6, then for each entry stamp:7 total:6; big-endian
--
-- A stamp is a time or the number of a sub-window, counted from the base. A total is the running total up to and
-- including its entry, and `before` that before the first, so the use of any suffix is one subtraction and the first
-- entry that counts is a binary search: no decision depends on how many there are. Totals wrap at 2^48; their differences
-- never do, for a ledger holds less than 2^42 units. A ledger has one entry at least.

local function define_ledger()
  local LEDGER_HEAD, LEDGER_ENTRY = 12, 13
  local TOTAL_END = 2 ^ 48
  -- The same as in the core, which plays this.
  local REWRITTEN_ENTRIES_MAX = 1024
  local floor, sub, pack, unpack_bytes = math.floor, string.sub, struct.pack, struct.unpack

  -- The number of entries; nil if this is no ledger. The tag that marks a key of another type is too short for one.
  local function ledger_length(state)
    local length = (#state - LEDGER_HEAD) / LEDGER_ENTRY
    if length >= 1 and length % 1 == 0 then return length end
    return nil
  end

  local function ledger_entry(state, at)
    return unpack_bytes('>I7I6', state, LEDGER_HEAD + LEDGER_ENTRY * (at - 1) + 1)
  end

  -- The running total before an entry.
  local function total_before(state, at)
    if at > 1 then
      local _, total = ledger_entry(state, at - 1)
      return total
    end
    return (unpack_bytes('>I6', state, 7))
  end

  local function total_between(earlier, later)
    local units = later - earlier
    if units < 0 then return units + TOTAL_END end
    return units
  end

  -- The first entry that is at `oldest` or later; length + 1 if there is none.
  local function first_since(state, length, oldest)
    local low, high = 1, length + 1
    while low < high do
      local middle = floor((low + high) / 2)
      if ledger_entry(state, middle) < oldest then low = middle + 1 else high = middle end
    end
    return low
  end

  -- The first entry after which no more than `limit` units were used, when `total` is the newest. What is before it is
  -- buried: while it is in a window so is all that came after it, which is more than the limit without it.
  local function first_not_buried(state, first, length, total, limit)
    local low, high = first, length + 1
    while low < high do
      local middle = floor((low + high) / 2)
      local _, before = ledger_entry(state, middle)
      if total_between(before, total) > limit then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Units used at `oldest` or later.
  local function ledger_used(state, length, oldest)
    local first = first_since(state, length, oldest)
    if first > length then return 0 end
    local _, total = ledger_entry(state, length)
    return total_between(total_before(state, first), total)
  end

  -- The ledger with `units` at `stamp`, which is not before the newest entry, without what cannot matter any more. More than
  -- the limit in one entry is over whatever the excess.
  local function ledger_add(state, base, stamp, units, oldest, limit)
    if not state then
      return pack('>I6I6I7I6', base, 0, stamp, units > limit and limit + 1 or units)
    end
    local length = ledger_length(state)
    local first = first_since(state, length, oldest)
    local newest, total = ledger_entry(state, length)
    local held, kept = 0, length
    -- Of an entry with the same stamp, more; else a new one.
    if newest == stamp then
      local before = total_before(state, length)
      held, kept, total = total_between(before, total), length - 1, before
    end
    held = held + units
    if held > limit then held = limit + 1 end
    total = (total + held) % TOTAL_END
    first = first_not_buried(state, first, kept, total, limit)
    local entries = sub(state, LEDGER_HEAD + LEDGER_ENTRY * (first - 1) + 1, LEDGER_HEAD + LEDGER_ENTRY * kept)
    return pack('>I6I6', base, total_before(state, first)) .. entries .. pack('>I7I6', stamp, total)
  end

  -- The ledger without `units`, the newest first; false if nothing is left.
  local function ledger_take_back(state, units)
    for at = ledger_length(state), 1, -1 do
      local stamp, total = ledger_entry(state, at)
      local held = total_between(total_before(state, at), total)
      if held > units then
        local kept = sub(state, 1, LEDGER_HEAD + LEDGER_ENTRY * (at - 1))
        return kept .. pack('>I7I6', stamp, (total - units) % TOTAL_END), stamp
      end
      units = units - held
      -- Nothing more to take, and this entry is gone: what is before it stays as it is.
      if units == 0 and at > 1 then
        return sub(state, 1, LEDGER_HEAD + LEDGER_ENTRY * (at - 1)), (ledger_entry(state, at - 1))
      end
    end
    return false
  end

  -- The ledger without `units` of those at `stamp`, no more than there are; false if nothing is left, true if there is
  -- nothing to take. All that came after them is written anew, unless that is so much that others would wait for it.
  local function ledger_take_back_at(state, stamp, units)
    local length = ledger_length(state)
    local at = first_since(state, length, stamp)
    if at > length or length - at >= REWRITTEN_ENTRIES_MAX then return true end
    local found, total = ledger_entry(state, at)
    if found ~= stamp then return true end
    local held = total_between(total_before(state, at), total)
    local first = at
    if units >= held then
      if length == 1 then return false end
      units, first = held, at + 1
    end
    local left = { sub(state, 1, LEDGER_HEAD + LEDGER_ENTRY * (at - 1)) }
    for later = first, length do
      found, total = ledger_entry(state, later)
      left[#left + 1] = pack('>I7I6', found, (total - units) % TOTAL_END)
    end
    if first > length then found = ledger_entry(state, at - 1) end
    return table.concat(left), found
  end

  return {
    length = ledger_length, entry = ledger_entry, used = ledger_used, add = ledger_add, take_back = ledger_take_back,
    take_back_at = ledger_take_back_at,
  }
end
