-- Functions of `table` that the time limit has to interrupt, and that may not write to a protected
-- table. They do as those of Lua 5.1 do, step by step.
local native, rawget, rawset, loadstring = ...

local refuse, behind = native.refuse, native.behind
local error, type, select, tonumber = error, type, select, tonumber
local getmetatable, insert, gsub = getmetatable, table.insert, string.gsub
local library = {}

-- Positions so far in front of a table are not filled one by one.
local POSITION_MIN = -100000

-- The table that the first argument has to be.
local function check(name, t, count)
  if type(t) ~= 'table' then
    local found = count == 0 and 'no value' or type(t)
    refuse("bad argument #1 to '" .. name .. "' (table expected, got " .. found .. ')')
  end
  if behind[t] then error('Attempt to modify a readonly table', 0) end
end

function library.insert(...)
  local count, t, position, value = select('#', ...), ...
  check('insert', t, count)
  if count == 2 then
    insert(t, position)
  elseif count == 3 then
    local at = tonumber(position)
    if not at then
      refuse("bad argument #2 to 'insert' (number expected, got " .. type(position) .. ')')
    elseif not (at >= POSITION_MIN and at < 2 ^ 31) then
      refuse("bad argument #2 to 'insert' (position out of bounds)")
    end
    insert(t, at, value)
  else
    refuse("wrong number of arguments to 'insert'")
  end
end

-- The quicksort of Lua 5.1, for `<` and for a function: elements that it takes for equal end in
-- the same order.
local SORT = [[
local refuse = ...
local function sort(t, l, u, before)
  while l < u do
    local low, high = t[l], t[u]
    if BEFORE(high, low) then t[l], t[u] = high, low end
    if u - l == 1 then return end
    local i = (l + u - (l + u) % 2) / 2
    local middle
    middle, low = t[i], t[l]
    if BEFORE(middle, low) then
      t[i], t[l] = low, middle
    else
      high = t[u]
      if BEFORE(high, middle) then t[i], t[u] = high, middle end
    end
    if u - l == 2 then return end
    local pivot = t[i]
    t[i], t[u - 1] = t[u - 1], pivot
    local j = u - 1
    i = l
    while true do
      i = i + 1
      local one = t[i]
      while BEFORE(one, pivot) do
        if i > u then refuse('invalid order function for sorting') end
        i = i + 1
        one = t[i]
      end
      j = j - 1
      local other = t[j]
      while BEFORE(pivot, other) do
        if j < l then refuse('invalid order function for sorting') end
        j = j - 1
        other = t[j]
      end
      if j < i then break end
      t[i], t[j] = other, one
    end
    t[u - 1], t[i] = t[i], t[u - 1]
    if i - l < u - i then
      sort(t, l, i - 1, before)
      l = i + 1
    else
      sort(t, i + 1, u, before)
      u = i - 1
    end
  end
end
return sort
]]
local less = gsub(SORT, 'BEFORE(%b())', function(pair) return (gsub(pair, ',', ' <')) end)
local by_less = loadstring(less, native.chunk)(refuse)
local by_function = loadstring((gsub(SORT, 'BEFORE', 'before')), native.chunk)(refuse)

function library.sort(...)
  local count, t, before = select('#', ...), ...
  check('sort', t, count)
  if before ~= nil and type(before) ~= 'function' then
    refuse("bad argument #2 to 'sort' (function expected, got " .. type(before) .. ')')
  end
  local sort, length, sorted = before and by_function or by_less, #t, t
  if getmetatable(t) then
    -- The interpreter's own sort ignores metamethods too.
    sorted = {}
    for i = 1, length do sorted[i] = rawget(t, i) end
  end
  sort(sorted, 1, length, before)
  if sorted ~= t then
    for i = 1, length do rawset(t, i, sorted[i]) end
  end
end

return library
