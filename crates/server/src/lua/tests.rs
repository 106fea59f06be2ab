//! Scripts without a server: what the sandbox keeps, and what it bounds.

use super::*;
use crate::resp::reply::Replies;

/// Answers each command with a status, and counts it.
#[derive(Default)]
struct Echo(usize);

impl Host for Echo {
    fn command(&mut self, args: Args<'_>, _: Protocol) -> Answer {
        self.0 += 1;
        Answer::Reply(match args.get(0) {
            b"fail" => b"-ERR no\r\n".to_vec(),
            b"list" => b"*3\r\n:1\r\n$-1\r\n$1\r\nx\r\n".to_vec(),
            b"end" => return Answer::End,
            _ => b"+OK\r\n".to_vec(),
        })
    }

    fn permits(&mut self, args: Args<'_>) -> Option<bool> {
        Some(args.get(0) == b"may")
    }

    fn size_max(&self) -> usize {
        1 << 20
    }
}

fn interpreter() -> Interpreter {
    Interpreter::new(Purpose::Scripts, 16 << 20).unwrap()
}

/// The end of a run: the bytes of the reply, or a text about how it failed.
fn run_for(interpreter: &Interpreter, code: &str, time_max: Duration) -> String {
    let function = match interpreter.compile(code.as_bytes()) {
        Ok(function) => function,
        Err(text) => return format!("compile: {text}"),
    };
    let input = Input { keys: vec![b"key"], args: vec![b"arg"], time_max: Some(time_max), seed: 0 };
    match interpreter.run(&function, &input, &mut Echo::default()) {
        Finished::Value(returned) => {
            let mut out = Replies::default();
            match write_value(&returned, &mut out, 1 << 20) {
                Ok(()) => String::from_utf8_lossy(&out.into_bytes()).into_owned(),
                Err(Unwritten::Size) => "size".into(),
                Err(Unwritten::Time) => "Time".into(),
                Err(Unwritten::Failed(text)) => format!("unwritten: {}", String::from_utf8_lossy(&text)),
            }
        }
        Finished::Failed(failure) => format!("error: {}", String::from_utf8_lossy(&failure.text)),
        Finished::Broken(text) => format!("broken: {}", String::from_utf8_lossy(&text)),
        Finished::Ended(end) => format!("{end:?}"),
    }
}

fn run(code: &str) -> String {
    run_for(&interpreter(), code, Duration::from_secs(60))
}

#[test]
fn values_become_replies_and_back() {
    for (code, expect) in [
        ("return {1, 2.9, 'a', true, false, nil, 3}", "*5\r\n:1\r\n:2\r\n$1\r\na\r\n:1\r\n$-1\r\n"),
        ("return {KEYS[1], ARGV[1], #KEYS, #ARGV}", "*4\r\n$3\r\nkey\r\n$3\r\narg\r\n:1\r\n:1\r\n"),
        ("return redis.call('ping')", "+OK\r\n"),
        ("local t = redis.call('list') return {t[1], t[2], t[3]}", "*3\r\n:1\r\n$-1\r\n$1\r\nx\r\n"),
        ("return redis.pcall('fail')", "-ERR no\r\n"),
        ("return redis.call('fail')", "error: ERR no"),
        (
            "local ok, e = pcall(redis.call, 'fail') return {tostring(ok), type(e), e}",
            "*3\r\n$5\r\nfalse\r\n$6\r\nstring\r\n$6\r\nERR no\r\n",
        ),
        (
            "return {tostring(redis.acl_check_cmd('may')), tostring(redis.acl_check_cmd('not'))}",
            "*2\r\n$4\r\ntrue\r\n$5\r\nfalse\r\n",
        ),
        ("return redis.sha1hex('abc')", "$40\r\na9993e364706816aba3e25717850c26c9cd0d89d\r\n"),
        ("return 'x' .. nil", "error: ERR user_script:1: attempt to concatenate a nil value"),
        ("return +", "compile: user_script:1: unexpected symbol near '+'"),
    ] {
        assert_eq!(run(code), expect, "{code}");
    }
}

/// LUA-1
#[test]
fn scripts_leave_nothing_behind() {
    let interpreter = interpreter();
    let run = |code: &str| run_for(&interpreter, code, Duration::from_secs(60));
    for code in [
        "x = 1",
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "redis.x = 1",
        "string.x = 1",
        "getmetatable('').__index = nil",
        "setmetatable(_G, {})",
        "setmetatable(redis, nil)",
        "loadstring('x = 1')()",
        "coroutine.wrap(function() x = 1 end)()",
        "KEYS = {}",
        "local _, t = pairs(redis) t.call = nil",
        "local _, t = pairs(_G) t.x = 1",
        "local _, t = pairs(getmetatable('')) t.__index = nil",
        "local _, t = ipairs(cjson) t.encode = nil",
        "local f, t = pairs(string) rawset(t, 'rep', nil)",
        "table.insert(redis, 1)",
        "table.insert(cjson, 1, 1)",
        "table.sort(_G)",
    ] {
        let found = run(code);
        assert!(found.contains("Attempt to modify a readonly table"), "{code}: {found}");
    }
    run("cjson.encode_number_precision(3)");
    let found = run("return {tostring(redis[1]), tostring(rawget(cjson, 1)), cjson.encode(1/3)}");
    assert_eq!(found, "*3\r\n$3\r\nnil\r\n$3\r\nnil\r\n$16\r\n0.33333333333333\r\n");
    for absent in ["io", "print", "dofile", "loadfile", "require", "package", "debug", "newproxy", "getfenv", "setfenv"]
    {
        let found = run(&format!("return {absent}"));
        assert!(found.contains("nonexistent global variable"), "{absent}: {found}");
    }
    assert_eq!(
        run("return {type(os.clock()), tostring(os.getenv), tostring(os.exit)}"),
        "*3\r\n$6\r\nnumber\r\n$3\r\nnil\r\n$3\r\nnil\r\n"
    );
    assert_eq!(run("return loadstring(string.dump(function() end))"), "$-1\r\n");
    assert_eq!(run("local count = 0 for name in pairs(redis) do count = count + 1 end return count > 10"), ":1\r\n");
    assert_eq!(run("for name, value in pairs(redis) do if value ~= redis[name] then return name end end"), "$-1\r\n");
}

/// LUA-2
#[test]
fn no_script_catches_its_end() {
    let interpreter = interpreter();
    for code in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "string.find(string.rep('a', 1000), string.rep('.-', 30) .. 'b')",
        "while true do pcall(string.find, string.rep('a', 1000), string.rep('.-', 30) .. 'b') end",
        "string.gsub(string.rep('a', 100), '.', function() while true do end end)",
        "table.sort({3, 2, 1}, function() while true do end end)",
        "setmetatable({}, {__index = function() while true do end end}).x = 1 return setmetatable({}, {__index = function() while true do end end}).x",
        "loadstring('while true do end')()",
        // Each coroutine counts its own instructions.
        "local function f(depth) for i = 1, 500 do if depth > 0 then coroutine.wrap(f)(depth - 1) end end end f(100)",
        // A call alone takes a while.
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.concat(t, ',') end",
        "local t = {} for i = 1, 1e5 do t[i] = i * 7919 % 100003 end while true do table.sort(t) end",
        "local t = {} for i = 1, 2e5 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
        "local t = {} for i = 1, 5e4 do t[i] = {} end while true do collectgarbage() end",
        "local s = string.rep('x', 2e6) while true do s:upper() end",
        "local t = {} for i = 1, 15 do local u = {} for j = 1, 99 do u[j] = t end t = u end cmsgpack.pack(t)",
        "local t = {} for i = 1, 500 do t = {t, t} end cjson.encode(t)",
        "local t = {} for i = 1, 500 do t = {t, t} end return t",
        "local s = string.rep('(', 1e6) return string.find(s, '%b()')",
    ] {
        let start = Instant::now();
        assert_eq!(run_for(&interpreter, code, Duration::from_millis(20)), "Time", "{code}");
        assert!(start.elapsed() < Duration::from_secs(5), "{code} ends late: {:?}", start.elapsed());
    }
    assert_eq!(run_for(&interpreter, "pcall(redis.call, 'end') return 1", Duration::from_secs(60)), "Host");
    assert_eq!(run_for(&interpreter, "return 1", Duration::from_secs(60)), ":1\r\n", "the next one runs");
}

#[test]
fn scripts_stay_within_their_bounds() {
    let interpreter = interpreter();
    let run = |code: &str| run_for(&interpreter, code, Duration::from_secs(60));
    for (code, expect) in [
        ("local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end", "not enough memory"),
        ("return string.rep('x', 1e9)", "resulting string too large"),
        ("return string.rep('x', 1e8)", "not enough memory"),
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        ("return string.find(string.rep('a', 1000), string.rep('a?', 1000))", "pattern too complex"),
        ("local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)", "excessive nesting"),
        ("return cjson.decode(string.rep('[', 2000))", "too many nested"),
        ("return cmsgpack.unpack(string.rep('\\145', 2000))", "too many nested"),
        ("return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Missing bytes"),
        ("local t = {} t[1] = t return t", "reached lua stack limit"),
        ("local s = '' for i = 1, 300 do s = s .. '(' end return loadstring(s)", "$-1"),
        ("return unpack({}, 1, 1e6)", "too many results to unpack"),
        ("return struct.pack('i99', 1)", "larger than limit"),
        ("return string.gsub(string.rep('x', 1e5), 'x', string.rep('y', 1e4))", "not enough memory"),
        (
            "local s = string.rep('x', 1e6) return struct.pack('ssssssssssssssss', s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s)",
            "not enough memory",
        ),
        (
            "local s = string.rep('x', 1e6) return cjson.encode({s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s})",
            "not enough memory",
        ),
        ("local s = string.rep('x', 6e5) return redis.call('set', s, s)", "arguments are too large"),
        ("table.insert({}, -2^30, 1)", "position out of bounds"),
        ("table.insert({}, 3 * 2^31, 1)", "position out of bounds"),
        ("local function f(s) return (string.gsub(s, 'x', f)) end return f('xyz')", "overflow"),
        ("local function f() return pcall(string.gsub, 'x', 'x', f) end return tostring(f())", "true"),
    ] {
        let found = run(code);
        assert!(found.contains(expect), "{code}: {found}");
        assert!(interpreter.memory() <= 16 << 20);
        assert_eq!(interpreter.shared.outside.load(std::sync::atomic::Ordering::Relaxed), 0, "{code}");
    }
    assert_eq!(run("return 1"), ":1\r\n");
}

/// The bindings hold a few thousand values at a time; scripts use more.
#[test]
fn values_have_many_elements() {
    let interpreter = interpreter();
    let run = |code: &str| run_for(&interpreter, code, Duration::from_secs(60));
    let many = "local t = {} for i = 1, 20000 do t[i] = 'x' .. i end ";
    let pairs = "local t = {} for i = 1, 10000 do t['x' .. i] = 'y' .. i end ";
    assert!(run(&format!("{many} return t")).starts_with("*20000\r\n$2\r\nx1\r\n"));
    assert!(run(&format!("{pairs} return {{map = t}}")).starts_with("*20000\r\n"));
    assert!(run(&format!("{pairs} return {{set = t}}")).starts_with("*10000\r\n"));
    assert_eq!(run(&format!("{pairs} return cmsgpack.unpack(cmsgpack.pack(t)).x777")), "$4\r\ny777\r\n");
    assert_eq!(run(&format!("{many} return redis.call('set', unpack(t, 1, 7900))")), "+OK\r\n");
    let words: Vec<Vec<u8>> = (0..20_000).map(|number| format!("word {number}").into_bytes()).collect();
    let function = interpreter.compile(b"return {#ARGV, ARGV[20000]}").unwrap();
    let args = words.iter().map(Vec::as_slice).collect();
    let input = Input { keys: vec![], args, time_max: None, seed: 0 };
    let Finished::Value(returned) = interpreter.run(&function, &input, &mut Echo::default()) else { panic!() };
    let mut out = Replies::default();
    assert!(write_value(&returned, &mut out, 1 << 20).is_ok());
    assert_eq!(&*out.into_bytes(), b"*2\r\n:20000\r\n$10\r\nword 19999\r\n");
    // Compiled functions take no place among them.
    let kept: Vec<Kept> = (0..10_000).map(|_| interpreter.compile(b"return 1").unwrap()).collect();
    assert_eq!((kept.len(), &*run("return 1")), (10_000, ":1\r\n"));
}

/// An error is the script's, though a function of the server is between.
#[test]
fn errors_pass_through_functions_of_the_server() {
    for (code, expect) in [
        ("string.gsub('a', '.', function() error('inner') end)", "error: ERR user_script:1: inner"),
        ("string.gsub('a', '.', function() error({err = 'MINE x'}) end)", "error: MINE x"),
        ("return string.gsub('a', '.', function() return redis.call('fail') end)", "error: ERR no"),
        (
            "string.gsub('a', '.', setmetatable({}, {__index = function() error('inner') end}))",
            "error: ERR user_script:1: inner",
        ),
        ("return select(2, pcall(string.gsub, 'a', '.', function() error('inner', 0) end))", "$5\r\ninner\r\n"),
        ("return select(2, pcall(string.gsub, 'a', '.', function() error({'x'}) end))", "*1\r\n$1\r\nx\r\n"),
        (
            "return select(2, pcall(string.gsub, 'a', '.', function() string.gsub('b', '.', function() error({'y'}) end) end))",
            "*1\r\n$1\r\ny\r\n",
        ),
        ("rawset({}, nil, 1)", "error: ERR table index is nil"),
        ("next({}, 1)", "error: ERR invalid key to 'next'"),
        ("table.sort({1, 'x'})", "error: ERR attempt to compare string with number"),
        ("table.sort({1, 2, 3}, function() error('inner', 2) end)", "error: ERR inner"),
        ("for word in string.gmatch('a', '%') do end", "error: ERR user_script:1: malformed pattern (ends with '%')"),
        ("string.gsub('a', '(', '%1')", "error: ERR user_script:1: unfinished capture"),
    ] {
        assert_eq!(run(code), expect, "{code}");
    }
}

#[test]
fn libraries_answer_as_those_of_redis() {
    for (code, expect) in [
        ("cjson.encode({1, 2, {a = 'x/y\"'}})", r#"[1,2,{"a":"x\/y\""}]"#),
        ("cjson.encode({})", "{}"),
        ("cjson.encode(cjson.null)", "null"),
        ("cjson.encode({[1] = 1, [2] = 2, [4] = 4})", "[1,2,null,4]"),
        ("tostring(cjson.decode('[1, null, \"\\\\u00e9\\\\ud83d\\\\ude00\"]')[3])", "\u{e9}\u{1f600}"),
        ("tostring(cjson.decode('[null]')[1] == cjson.null)", "true"),
        ("tostring(cjson.decode('{\"a\": {\"b\": [1.5e3, -2]}}').a.b[1])", "1500"),
        ("select(2, pcall(cjson.decode, '{\"a\" 1}'))", "Expected colon but found T_NUMBER at character 6"),
        ("select(2, pcall(cjson.decode, '[1, x]'))", "Expected value but found invalid token at character 5"),
        ("tostring(cmsgpack.unpack(cmsgpack.pack(-129)))", "-129"),
        ("cmsgpack.unpack(cmsgpack.pack({1, {a = 'b'}}))[2].a", "b"),
        ("bit.tohex(bit.bor(1, 2, 4, 0xff00))", "0000ff07"),
        ("tostring(bit.lshift(1, 31))", "-2147483648"),
        ("tostring(bit.bswap(0x12345678))", "2018915346"),
        ("tostring(struct.size('>HBl'))", "11"),
        ("table.concat({struct.unpack('>HBc3', struct.pack('>HBc3', 258, 7, 'abc'))}, ' ')", "258 7 abc 7"),
        ("string.gsub('hello world', '(%w+)', '<%1>')", "<hello> <world>"),
        ("string.gsub('abc', '', '-')", "-a-b-c-"),
        ("string.gsub('abc', '%w', {a = 'x', b = true and 'y'})", "xyc"),
        ("table.concat({string.find('a.b', '.', 1, true)}, ' ')", "2 2"),
        ("table.concat({string.match('key = value', '(%w+) = (%w+)')}, ' ')", "key value"),
        ("(math.randomseed(7) or '') .. tostring(math.random())", "0.26644419658298"),
        ("tostring(0.1 + 0.2) .. ' ' .. 1e15 .. ' ' .. 10/2", "0.3 1e+15 5"),
    ] {
        let found = run(&format!("return (function() return {code} end)()"));
        assert_eq!(found, format!("${}\r\n{expect}\r\n", expect.len()), "{code}");
    }
}

/// A library that does not compile any more keeps the others from nothing.
#[test]
fn broken_libraries_stand_alone() {
    let code = |name: &str, text: &str| (name.as_bytes().to_vec(), format!("#!lua name={name}\n{text}").into_bytes());
    let good = code("good", "local n = 0 redis.register_function('f', function() n = n + 1 return n end)");
    let stored = [
        code("bad", "+"),
        good.clone(),
        code("same", "redis.register_function('f', function() return 0 end)"),
        code("slow", "while true do end redis.register_function('g', function() end)"),
    ];
    let mut functions = Functions::default();
    functions.become_stored(stored[..3].to_vec(), 16 << 20);
    let broken = |functions: &Functions| functions.libraries.values().filter(|one| one.broken.is_some()).count();
    assert_eq!((functions.libraries.len(), broken(&functions)), (3, 2));
    let count = |functions: &Functions| {
        let (interpreter, function) = functions.function(b"F").unwrap();
        let input = Input { keys: vec![], args: vec![], time_max: None, seed: 7 };
        match interpreter.run(&function.function, &input, &mut Echo::default()) {
            Finished::Value(Returned { value, .. }) => numbers::number(&value),
            _ => None,
        }
    };
    assert_eq!(count(&functions), Some(1.0));
    assert!(functions.add(&stored[3].1, true, 16 << 20).unwrap_err().contains("timeout"));
    assert!(functions.add(&stored[0].1, false, 16 << 20).unwrap_err().contains("already exists"));
    assert!(functions.remove(b"bad"));
    // It is not compiled again: its state is as it was.
    functions.become_stored(vec![good], 16 << 20);
    assert_eq!((functions.libraries.len(), count(&functions)), (1, Some(2.0)));
}

/// The functions of a library see `redis` alone while they are registered.
#[test]
fn libraries_register_functions() {
    let interpreter = Interpreter::new(Purpose::Functions, 16 << 20).unwrap();
    let load = |code: &str| {
        let chunk = interpreter.compile(code.as_bytes()).unwrap();
        interpreter
            .load_library(&chunk, Some(Duration::from_millis(500)))
            .map_err(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let registered =
        load("redis.register_function('f', function(keys, args) return keys[1] .. args[1] .. #args end)").unwrap();
    assert_eq!(registered.len(), 1);
    let input = Input { keys: vec![b"k"], args: vec![b"a"], time_max: None, seed: 7 };
    match interpreter.run(&registered[0].function, &input, &mut Echo::default()) {
        Finished::Value(Returned { value: Value::String(text), .. }) => assert_eq!(&*text.as_bytes(), b"ka1"),
        _ => panic!("it returns a text"),
    }
    let named =
        load("redis.register_function{function_name='g', callback=function() end, flags={'no-writes'}}").unwrap();
    assert_eq!(named[0].flags, ScriptFlags::NO_WRITES);
    assert_eq!(
        load("string.rep('x', 3)").err().unwrap(),
        "ERR user_function:1: Script attempted to access nonexistent global variable 'string'"
    );
    assert_eq!(
        load("redis.register_function('a b', function() end)").err().unwrap(),
        format!("ERR {}", header::BAD_NAME)
    );
    assert_eq!(load("while true do end").err().unwrap(), "ERR FUNCTION LOAD timeout");
    let after = load("redis.register_function('h', function() return string.rep('x', 2) .. #redis.sha1hex('') end)");
    match interpreter.run(&after.unwrap()[0].function, &input, &mut Echo::default()) {
        Finished::Value(Returned { value: Value::String(text), .. }) => assert_eq!(&*text.as_bytes(), b"xx40"),
        _ => panic!("it sees the usual globals"),
    }
}
