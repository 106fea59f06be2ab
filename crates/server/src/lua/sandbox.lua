-- The globals of scripts, made of the interpreter's own libraries and of the server's functions.
--
-- Scripts see the globals, and each library, through an empty table that may not be changed: its
-- metatable finds what it lacks in the table behind it. Functions of the server raise errors as
-- values of its own, which `native.caught` turns into Lua's; so everything that catches errors is
-- wrapped here. An error that ends a script is raised again by `native.caught`.
--
-- A function that is written here has no frame of its caller where it was called as a tail: those
-- that tell the caller's line and are often called so are functions of the server.
local native, tables = ...

local raw = {
  pcall = pcall, xpcall = xpcall, resume = coroutine.resume, rawget = rawget, rawset = rawset,
  loadstring = loadstring, collectgarbage = collectgarbage, setmetatable = setmetatable,
}
local error, type, select, concat, byte = error, type, select, table.concat, string.byte
local caught = native.caught

local behind = native.behind -- the table behind each protected one
local MODIFY = 'Attempt to modify a readonly table'

local function refuse()
  error(MODIFY, 2)
end

local function protect(hidden, missing)
  if missing then raw.setmetatable(hidden, { __index = missing }) end
  local shown = {}
  behind[shown] = hidden
  return raw.setmetatable(shown, { __index = hidden, __newindex = refuse })
end

local function missing(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local function outcome(ok, ...)
  if ok then return true, ... end
  return false, caught(..., true)
end

local function results(ok, ...)
  if ok then return true, ... end
  return false, caught(..., false)
end

local base = {
  _VERSION = _VERSION, assert = assert, error = error, gcinfo = gcinfo, ipairs = ipairs,
  rawequal = rawequal, select = select, tonumber = tonumber, tostring = tostring, type = type,
  unpack = unpack,
  next = native.next, pairs = native.pairs, rawget = native.rawget, rawset = native.rawset,
  getmetatable = native.getmetatable, setmetatable = native.setmetatable,
}

function base.pcall(...)
  return outcome(raw.pcall(...))
end

function base.xpcall(f, handler)
  return results(raw.xpcall(f, function(fault) return handler(caught(fault, false)) end))
end

function base.loadstring(text, name)
  if type(text) == 'string' and byte(text) == 27 then
    return nil, 'a script cannot be loaded from bytecode'
  end
  return raw.loadstring(text, name or text)
end

function base.load(reader, name)
  if type(reader) ~= 'function' then
    error("bad argument #1 to 'load' (function expected, got " .. type(reader) .. ')', 2)
  end
  local parts = {}
  while true do
    local part = reader()
    if part == nil or part == '' then break end
    if type(part) ~= 'string' then return nil, 'reader function must return a string' end
    parts[#parts + 1] = part
  end
  return base.loadstring(concat(parts), name or '=(load)')
end

function base.collectgarbage(option, argument)
  if option == nil or option == 'collect' or option == 'count' or option == 'step' then
    return raw.collectgarbage(option or 'collect', argument)
  end
  return 0 -- other options would change the collector of the server
end

local thread = {}
for name, value in pairs(coroutine) do thread[name] = value end
function thread.resume(...)
  return results(raw.resume(...))
end
base.coroutine = thread

for name, value in pairs(tables(native, raw.rawget, raw.rawset, raw.loadstring)) do
  table[name] = value
end
for name, value in pairs(native.string) do string[name] = value end
string.gfind = string.gmatch
math.random, math.randomseed = native.random, native.randomseed
base.string, base.math, base.table = string, math, table
base.os = { clock = os.clock }
for name, library in pairs(native.libraries) do base[name] = library end

for _, name in ipairs {
  'string', 'math', 'table', 'os', 'coroutine', 'redis', 'bit', 'cjson', 'cmsgpack', 'struct',
} do
  base[name] = protect(base[name])
end
native.strings(protect { __index = base.string })

local globals = protect(base, missing)
base._G = globals

-- As a library is loaded, `redis` alone is there, and it is another one.
local loading
if native.loading then
  loading = { redis = protect(native.loading, missing) }
  raw.setmetatable(loading, { __index = missing })
end
local switch = getmetatable(globals)

-- Calls a function: whether it returned, and what it returned first. An error goes to the handler,
-- which returns the value.
local function attempt(handler, f, ...)
  local argument, count = { ... }, select('#', ...)
  if count == 0 then return raw.xpcall(f, handler) end
  return raw.xpcall(function() return f(unpack(argument, 1, count)) end, handler)
end

-- Runs a script.
local function run(f, ...)
  return attempt(native.failed, f, ...)
end

-- Calls a function of a script for a function of the server.
native.guard(function(f, ...)
  return attempt(native.keep, f, ...)
end)

native.index(function(t, key)
  return t[key]
end)

-- The globals that functions see: those of a library that is being loaded, or the usual ones.
local function globals_of(is_loading)
  local seen = is_loading and loading or base
  switch.__index, behind[globals] = seen, seen
end

-- The function that `string.gmatch` returns: `native.match_from` returns the place behind a match,
-- then the captures.
native.matches(function(subject, pattern)
  local at, match_from = 0, native.match_from
  local function found(next, ...)
    at = next
    return ...
  end
  return function()
    return found(match_from(subject, pattern, at))
  end
end)

return globals, base, run, globals_of
