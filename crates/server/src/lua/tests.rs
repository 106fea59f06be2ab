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
        Finished::Value(value, protocol) => {
            let mut out = Replies::default();
            write_value(&value, protocol, &mut out, 1 << 20).unwrap();
            String::from_utf8_lossy(&out.into_bytes()).into_owned()
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
    ] {
        let found = run(code);
        assert!(found.contains("Attempt to modify a readonly table"), "{code}: {found}");
    }
    // These write past metatables.
    for code in
        ["table.insert(redis, 1)", "table.insert(_G, 'x') table.insert(cjson, 1)", "cjson.encode_number_precision(3)"]
    {
        run(code);
    }
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
    ] {
        assert_eq!(run_for(&interpreter, code, Duration::from_millis(20)), "Time", "{code}");
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
    ] {
        let found = run(code);
        assert!(found.contains(expect), "{code}: {found}");
        assert!(interpreter.memory() <= 16 << 20);
    }
    assert_eq!(run("return 1"), ":1\r\n");
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

/// The functions of a library see nothing but `redis` while they are registered.
#[test]
fn libraries_register_functions() {
    let interpreter = Interpreter::new(Purpose::Functions, 16 << 20).unwrap();
    let load = |code: &str| {
        let chunk = interpreter.compile(code.as_bytes()).unwrap();
        interpreter.load_library(&chunk).map_err(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let registered =
        load("redis.register_function('f', function(keys, args) return keys[1] .. args[1] .. #args end)").unwrap();
    assert_eq!(registered.len(), 1);
    let input = Input { keys: vec![b"k"], args: vec![b"a"], time_max: None, seed: 7 };
    match interpreter.run(&registered[0].function, &input, &mut Echo::default()) {
        Finished::Value(Value::String(text), _) => assert_eq!(&*text.as_bytes(), b"ka1"),
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
}
