-- The globals of scripts, made of the interpreter's own libraries and of the server's functions.
--
-- Scripts see the globals, and each library, through an empty table that may not be changed: its
-- metatable finds what it lacks in the table behind it. Functions of the server raise errors as
-- values of its own, which `native.caught` turns into Lua's; so everything that catches errors is
-- wrapped here. An error that ends a script is raised again by `native.caught`.
local native = ...

local raw = {
  pcall = pcall, xpcall = xpcall, resume = coroutine.resume, next = next, rawset = rawset,
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
  return 0 -- the server's business
end

local thread = {}
for name, value in pairs(coroutine) do thread[name] = value end
function thread.resume(...)
  return results(raw.resume(...))
end
base.coroutine = thread

for name, value in pairs(native.string) do string[name] = value end
string.gfind = string.gmatch
math.random, math.randomseed = native.random, native.randomseed
base.string, base.math, base.table = string, math, table
base.os = { clock = os.clock }
for name, library in pairs(native.libraries) do base[name] = library end

local shown = {}
local function show(name, hidden)
  shown[#shown + 1] = protect(hidden)
  return shown[#shown]
end
for _, name in ipairs { 'string', 'math', 'table', 'os', 'coroutine', 'redis', 'bit', 'cjson', 'cmsgpack', 'struct' } do
  if base[name] then base[name] = show(name, base[name]) end
end
native.strings(show('', { __index = base.string }))

local globals = protect(base, missing)
shown[#shown + 1] = globals
base._G = globals

-- As a library is loaded, `redis` alone is there, and it is another one.
local loading
if native.loading then
  loading = { redis = protect(native.loading, missing) }
  shown[#shown + 1] = loading.redis
  raw.setmetatable(loading, { __index = missing })
end
local switch = getmetatable(globals)

-- Runs a function: whether it returned, and what, or the error as `native.failed` tells it.
local function run(f, ...)
  local argument, count = { ... }, select('#', ...)
  if count == 0 then return raw.xpcall(f, native.failed) end
  return raw.xpcall(function() return f(unpack(argument, 1, count)) end, native.failed)
end

-- The same with the globals of a library that is being loaded.
local function load_library(f)
  switch.__index, behind[globals] = loading, loading
  local ok, value = raw.xpcall(f, native.failed)
  switch.__index, behind[globals] = base, base
  return ok, value
end

-- Functions of the libraries write past metatables: what they left goes.
local function clean()
  for index = 1, #shown do
    local table = shown[index]
    local name = raw.next(table)
    while name ~= nil do
      raw.rawset(table, name, nil)
      name = raw.next(table)
    end
  end
end

return globals, base, run, load_library, clean
