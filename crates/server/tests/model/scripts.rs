//! Random scripts in Lua beside a real Redis: commands, conversions and libraries together; and
//! libraries of functions that go from one server to the other.

use crate::common::{self, Ours, Redis, Reply, command};
use crate::{compare, shown};
use everbyte_workload::Random;

/// A part of a script that gives a command.
fn statement(random: &mut Random) -> String {
    let keys = ["'a'", "'b'", "KEYS[1]", "ARGV[1]", "KEYS[9]"];
    let values = ["'v'", "ARGV[2]", "7", "-1.5", "'10'", "{}", "nil", "1e10", "true"];
    let mut key = || keys[random.index(keys.len())].to_string();
    let (one, two) = (key(), key());
    let value = values[random.index(values.len())];
    let commands = [
        format!("'set', {one}, {value}"),
        format!("'get', {one}"),
        format!("'incrby', {one}, {value}"),
        format!("'append', {one}, {value}"),
        format!("'rpush', {one}, {value}, 'w'"),
        format!("'lrange', {one}, 0, -1"),
        format!("'lpop', {one}"),
        format!("'hset', {one}, 'f', {value}"),
        format!("'hgetall', {one}"),
        format!("'sadd', {one}, {value}"),
        format!("'scard', {one}"),
        format!("'zadd', {one}, 2.5, 'm'"),
        format!("'zscore', {one}, 'm'"),
        format!("'zrange', {one}, 0, -1, 'withscores'"),
        format!("'del', {one}, {two}"),
        format!("'rename', {one}, {two}"),
        format!("'mget', {one}, {two}, 'nosuch'"),
        format!("'type', {one}"),
        format!("'exists', {one}"),
        "'select', '1'".to_string(),
        "'nosuch'".to_string(),
        "'ping'".to_string(),
        "'echo', 'text'".to_string(),
    ];
    let command = &commands[random.index(commands.len())];
    match random.index(6) {
        0 => format!("r[#r + 1] = redis.call({command})"),
        1 => format!("r[#r + 1] = {{pcall(redis.call, {command})}}"),
        2 => format!("redis.setresp({}) r[#r + 1] = redis.pcall({command})", 2 + random.index(2)),
        _ => format!("r[#r + 1] = redis.pcall({command})"),
    }
}

/// A part of a script about its values alone.
fn expression(random: &mut Random, depth: usize) -> String {
    let atoms = [
        "1", "-2", "0.5", "1e15", "'text'", "'12'", "ARGV[1]", "KEYS[1]", "true", "false", "''", "'a.b%c'", "2^31",
        "'0x1f'",
    ];
    if depth == 0 {
        return atoms[random.index(atoms.len())].into();
    }
    let (one, two) = (expression(random, depth - 1), expression(random, depth - 1));
    match random.index(22) {
        0 => format!("({one} .. {two})"),
        1 => format!("({one} + {two})"),
        2 => format!("({one} == {two})"),
        3 => format!("{{{one}, {two}}}"),
        // A table has its address as a text.
        4 => format!("(type({one}) == 'table' and 't' or tostring({one}))"),
        5 => format!("cjson.encode({{{one}, {two}}})"),
        6 => format!("cjson.decode(cjson.encode({{{one}}}))"),
        7 => format!("cmsgpack.pack({one}, {two})"),
        8 => format!("cmsgpack.unpack(cmsgpack.pack({one}))"),
        9 => format!("bit.band({one}, {two})"),
        10 => format!("bit.tohex({one})"),
        11 => format!("struct.pack('>ihs', {one}, 3, {two})"),
        12 => format!("string.find({one}, {two})"),
        13 => format!("string.gsub({one}, {two}, '<%0>')"),
        14 => format!("string.gsub({one}, '[%w.]', {{a = 1, t = 'T', x = false}})"),
        15 => format!("string.match({one}, '^(%w)(.-)([%d]*)$')"),
        16 => format!("string.format('%s|%5s', {one}, type({two}))"),
        17 => format!("string.rep({one}, 3)"),
        18 => format!("tonumber({one})"),
        19 => format!("select('#', {one}, {two})"),
        20 => format!("#{one}"),
        _ => format!("string.upper({one}):sub(2, -2)"),
    }
}

/// Programs of several parts, in both protocols: every reply is that of Redis.
#[test]
fn random_scripts_are_answered_byte_for_byte() {
    let seed = common::seed("random_scripts");
    let mut random = Random::new(seed);
    let (us, redis) = (Ours::start(), Redis::start());
    for protocol in ["2", "3"] {
        let (mut ours, mut theirs) = (us.client(), redis.client());
        for client in [&mut ours, &mut theirs] {
            client.call(&["HELLO", protocol]);
            client.call(&["FLUSHALL"]);
        }
        for round in 0..1500 {
            let mut script = String::from("local r = {}\n");
            for _ in 0..1 + random.index(4) {
                match random.index(3) {
                    0 => script += &format!("r[#r + 1] = {}\n", expression(&mut random, 1 + round % 3)),
                    _ => script += &(statement(&mut random) + "\n"),
                }
            }
            script += "return r";
            let name = if random.index(8) == 0 { "EVAL_RO" } else { "EVAL" };
            let words = [name, &script, "1", "a", "b", "5"];
            compare(&mut ours, &mut theirs, &command(&words), &format!("seed {seed:#x}, round {round}: {script}"));
            if round % 50 == 49 {
                compare(&mut ours, &mut theirs, &command(&["FLUSHALL"]), "FLUSHALL");
            }
        }
    }
}

/// Libraries are dumped by either server and restored by the other.
#[test]
fn libraries_go_from_one_server_to_the_other() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let long = "-- a comment that is compressed ".repeat(50);
    let code = |name: &str| {
        format!("#!lua name={name}\n{long}\nredis.register_function('{name}_f', function(keys) return keys end)")
    };
    for (one, other) in [(true, "ours"), (false, "theirs")] {
        let (from, to) = if one { (&mut ours, &mut theirs) } else { (&mut theirs, &mut ours) };
        for client in [&mut *from, &mut *to] {
            client.call(&["FUNCTION", "FLUSH"]);
        }
        from.call(&["FUNCTION", "LOAD", &code("one")]);
        from.call(&["FUNCTION", "LOAD", &code("two")]);
        let payload = from.call(&["FUNCTION", "DUMP"]).bytes();
        let restore = |client: &mut common::Client, policy: &str| {
            client.call(&[&b"FUNCTION"[..], b"RESTORE", &payload, policy.as_bytes()])
        };
        assert_eq!(restore(to, "APPEND"), Reply::Simple("OK".into()), "{other}");
        for client in [&mut *from, &mut *to] {
            let found = client.exchange(&command(&["FCALL", "two_f", "1", "k"])).0;
            assert_eq!(shown(&found), "*1\\r\\n$1\\r\\nk\\r\\n");
        }
        for policy in ["APPEND", "REPLACE", "FLUSH", "APPEND"] {
            let [one, other] = [&mut *from, &mut *to].map(|client| restore(client, policy));
            // The library that is named is the first one met.
            let kind = |reply: &Reply| matches!(reply, Reply::Error(_));
            assert_eq!(kind(&one), kind(&other), "{policy}: {one:?} {other:?}");
        }
        compare(&mut ours, &mut theirs, &command(&["FUNCTION", "STATS"]), "STATS");
    }
}

/// Functions that are not the interpreter's own here answer and fail as its own do.
#[test]
fn library_functions_are_answered_byte_for_byte() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let pairs = "local function id(...) return select('#', ...), ... end ";
    let codes = [
        "local t = {5, 2, 9, 1, 7, 3, 8, 6, 4, 0} table.sort(t) return t",
        "local t = {5, 2, 9, 1, 7, 3, 8, 6, 4, 0} table.sort(t, function(a, b) return a > b end) return t",
        // Elements that are equal to the function end in the order of the interpreter's own sort.
        "local t = {} for i = 1, 100 do t[i] = i * 37 % 101 end table.sort(t, function(a, b) return a % 7 < b % 7 end) return t",
        "local t = {} for i = 1, 50 do t[i] = 'k' .. i end table.sort(t) return t",
        "table.sort({3, 1, 2, 5, 4}, function() return true end)",
        "local ok, e = pcall(table.sort, {3, 1, 2}, function() return true end) return e",
        "table.sort({1, 'x', 2})",
        "table.sort({1, {}, 2})",
        "table.sort({{}, {}})",
        "return pcall(table.sort, {1, 'x'})",
        "return {pcall(table.sort, {1, 'x'})}",
        "table.sort({1, 2}, 5)",
        "table.sort(5)",
        "table.sort()",
        "table.sort({3, 2, 1}, function() error('inner') end)",
        "table.sort({3, 2, 1}, function() error('inner', 2) end)",
        "local t = setmetatable({3, 1, 2}, {__index = function() return 0 end}) table.sort(t) return t",
        "local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) table.insert(t, 9, 9) return {#t, t[1], t[9]}",
        "local t = {1, 2} table.insert(t, 0, 'x') table.insert(t, -3, 'y') return {t[0], t[-3], t[-2], t[1], t[3]}",
        "local t = {} table.insert(t, '1', 'x') return t",
        "table.insert({}, 'x', 1)",
        "table.insert({}, {}, 1)",
        "table.insert({})",
        "table.insert({}, 1, 2, 3)",
        "table.insert(nil, 1)",
        "table.insert()",
        "table.insert(redis, 1)",
        "return {pcall(table.insert, redis, 1)}",
        "return {next({}), next({5}), pcall(next, {}, 'x')}",
        "next({}, 'x')",
        "return next(nil)",
        "rawset({}, nil, 1)",
        "return {pcall(rawset, {}, 0/0, 1)}",
        "for k, v in pairs(nil) do end",
        "local n = 0 for k, v in pairs(_G) do n = n + 1 end return n > 5",
        "local n = 0 for k in pairs(bit) do n = n + 1 end return n",
        "local f, t, k = pairs(bit) return {type(f), tostring(t == bit), tostring(k)}",
        "return {string.gsub('hello world', 'o', '0', 1)}",
        "return {string.gsub('hello', '', '-')}",
        "return {string.gsub('abc', '()b', '%1')}",
        "return {string.gsub('abc', '(b)()', '%2%1%0%%')}",
        "return {string.gsub('abc', 'b', '%')}",
        "return {string.gsub('abc', 'b', '%2')}",
        "return {string.gsub('abc', '(', 'x')}",
        "return {string.gsub('abc', '(b', '%1')}",
        "return {string.find('abc', '(b')}",
        "return {string.match('abc', '()b()')}",
        "return {string.find('ab', '()%1')}",
        "return {string.find('ab', '(a)%2')}",
        "return {string.find('aab', '(a)%1')}",
        "return {string.gsub('abc', '%w', function(c) if c == 'b' then return 5 end return c == 'c' and false end)}",
        "return {string.gsub('abc', '%w', function() return {} end)}",
        "return {string.gsub('abc', '%w', function() error('inner') end)}",
        "return {string.gsub('abc', '%w', function() error('inner', 2) end)}",
        "return {string.gsub('abc', '%w', function() error({err = 'MINE text'}) end)}",
        "return {string.gsub('abc', '%w', function() return redis.call('nosuch') end)}",
        "return {pcall(string.gsub, 'abc', '%w', function() return redis.call('nosuch') end)}",
        "return {pcall(string.gsub, 'abc', '%w', function() error({1, 2}) end)}",
        "return {pcall(string.gsub, 'abc', '%w', function() error('inner') end)}",
        "return {string.gsub('abc', '%w', setmetatable({}, {__index = function(_, k) return k .. k end}))}",
        "return {string.gsub('abc', '%w', setmetatable({}, {__index = function() error('inner') end}))}",
        "local f = function() error('in\\nner') end\nreturn {string.gsub('abc', '%w',\nf)}",
        "return string.gsub('abc', '%', 'x')",
        "return string.gsub('abc')",
        "local r = {} for a, b in string.gmatch('k1=v1, k2=v2', '(%w+)=(%w+)') do r[#r + 1] = a .. b end return r",
        "local r = {} for at in string.gmatch('abc', '()') do r[#r + 1] = at end return r",
        "for a in string.gmatch('abc', '[') do end",
        "for a in string.gmatch('abc', '^a') do return a end",
        "return string.gmatch('abc')",
        "return {string.rep('ab', 3), string.rep('ab', -1), string.rep('', 5)}",
        "local t = {} for i = 1, 9000 do t[i] = i end return t",
        "local t = {} for i = 1, 9000 do t[i] = 'x' .. i end return #cjson.encode(t) + #cmsgpack.pack(t)",
        "local t = {} for i = 1, 7900 do t[i] = 'x' .. i end return redis.call('rpush', 'list', unpack(t))",
        "local t = {} for i = 1, 7990 do t[i] = i end return redis.call('rpush', 'list', unpack(t))",
        "return #redis.call('lrange', 'list', 0, -1)",
        "return redis.call('lrange', 'list', 0, -1)",
        "return {id(struct.unpack('<i2>i4', struct.pack('<i2>i4', -5, 7)))}",
        "return struct.pack('!4bi', 1, 2)",
        "return cjson.encode({'a/b\\\"\\\\\\1\\127\\n', 1.5, {x = {}}})",
        "return cjson.encode({function() end})",
        "return cjson.encode(1/0)",
        "return {tostring(getmetatable(redis) == nil), tostring(getmetatable(string) == nil)}",
        "local co = coroutine.wrap(function() error('inner') end) co()",
        "return {coroutine.resume(coroutine.create(function() error({err = 'x y'}) end))}",
    ];
    let mut others = Vec::new();
    for code in codes {
        let request = command(&["EVAL", &format!("{pairs}{code}"), "0"]);
        let [one, other] = [&mut ours, &mut theirs].map(|client| shown(&client.exchange(&request).0));
        if one != other {
            others.push(format!("{code}\n  ours:  {one}\n  Redis: {other}\n"));
        }
    }
    assert!(others.is_empty(), "{}", others.concat());
}
