//! Tables that a server wrote are sound, and each damage of them is found with its place.

use super::*;
use crate::keyspace::collections::hashed;
use crate::keyspace::record::{Collection, string};
use crate::keyspace::tables::{Tables, element_key};
use crate::{Options, ServerScript};
use everbyte_kv::KvTable;
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::Random;

/// A store that has served these lines, on one client.
struct Served {
    kv: Kv,
    _folder: tempfile::TempDir,
}

fn requests(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).collect()
}

impl Served {
    fn new(lines: &[&str]) -> Served {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
        let kv = Kv::open_or_create(&store, "kv").unwrap();
        let mut server = ServerScript::open(kv.clone(), 1, false, Options::default()).unwrap();
        for lines in lines.chunks(100) {
            let replies = server.iteration(&[(0, requests(lines))]).unwrap();
            assert!(!replies[0].starts_with(b"-") && !replies[0].windows(3).any(|bytes| bytes == b"\r\n-"));
        }
        Served { kv, _folder: folder }
    }

    fn tables(&self) -> Tables {
        Tables::open(self.kv.clone()).unwrap()
    }

    fn check(&self, owners_size: usize) -> (Option<KeyspaceSums>, Vec<String>) {
        let mut findings = Vec::new();
        let sums = check_within(&self.kv, owners_size, &mut |finding| findings.push(finding.to_string()));
        (sums, findings)
    }

    fn findings(&self) -> Vec<String> {
        self.check(OWNERS_SIZE).1
    }
}

/// All types, with deadlines and without, in several databases.
const ALL: &[&str] = &[
    "SET plain v",
    "SET brief v PX 1000000000",
    "RPUSH l a b c",
    "LPUSH l z",
    "PEXPIRE l 1000000000",
    "SADD s m n o",
    "HSET h f v g w",
    "XADD x 1-1 f v",
    "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', function() end)\"",
    "SELECT 3",
    "SET text v",
    "RPUSH l a",
    "HSET h f v",
];

fn record(table: &KvTable, space: u8, key: &[u8]) -> Collection {
    match KeyRecord::parse(&table.get(&record_key(space, key)).unwrap().unwrap()).unwrap() {
        KeyRecord::Collection(collection) => collection,
        KeyRecord::String { .. } => panic!("a string"),
    }
}

#[test]
fn tables_that_a_server_wrote_are_sound() {
    let served = Served::new(ALL);
    let sums = KeyspaceSums { records: 8, collections: 6, elements: 13, deadlines: 2 };
    assert_eq!(served.check(OWNERS_SIZE), (Some(sums), Vec::new()));
    assert_eq!(served.check(0), (Some(sums), Vec::new()), "one collection in each pass");
}

#[test]
fn a_store_that_no_server_has_opened_is_not_checked() {
    let served = Served::new(&[]);
    assert_eq!(served.check(OWNERS_SIZE), (Some(KeyspaceSums::default()), Vec::new()));
    for name in NAMES {
        let mut batch = served.kv.batch();
        batch.drop_table(name).unwrap();
        served.kv.settle(batch.commit().unwrap()).unwrap();
    }
    assert_eq!(served.check(OWNERS_SIZE), (None, Vec::new()));
    served.kv.create_table("server/state").unwrap();
    let findings = served.findings();
    assert!(
        findings.len() == 3 && findings.iter().all(|finding| finding.contains("is missing (format)")),
        "{findings:?}"
    );
}

/// Each rule is broken in turn; exactly that is found, and where.
#[test]
fn each_broken_rule_is_found_with_its_place() {
    type Damage = fn(&Tables);
    let change = |tables: &Tables, key: &[u8], change: &dyn Fn(&mut Collection)| {
        let mut collection = record(&tables.keys, 0, key);
        change(&mut collection);
        tables.keys.put(&record_key(0, key), &collection.bytes()).unwrap();
    };
    let element =
        |tables: &Tables, key: &[u8], element: &[u8]| element_key(0, record(&tables.keys, 0, key).id, element);
    let damages: &[(Damage, &[&str])] = &[
        (
            |tables| tables.kv.put(b"l", b"v").unwrap(),
            &["damage in database 0 at key \"l\": the key is in the main table too (KEYS-1)"],
        ),
        (
            |tables| tables.keys.put(&record_key(0, b"odd"), &string(0, b"v")).unwrap(),
            &["a plain string that belongs to the main table lies in the table of keys (format)"],
        ),
        (
            |tables| {
                drop(tables.deadlines.delete(&tables.deadlines.range::<[u8]>(..).unwrap().next().unwrap().unwrap().0))
            },
            &["is not in the table of deadlines (KEYS-2)"],
        ),
        (
            |tables| tables.deadlines.put(&deadline_key(3, 77, b"text"), b"").unwrap(),
            &[
                "leak in database 3 at key \"text\": the table of deadlines has it with 77, and its record has the deadline 0 (KEYS-2)",
            ],
        ),
        (
            |tables| tables.deadlines.put(&deadline_key(0, 77, b"nosuch"), b"v").unwrap(),
            &["has a value of 1 bytes (format)", "has it with 77, and there is no record (KEYS-2)"],
        ),
        (
            |tables| tables.deadlines.put(b"\0short", b"").unwrap(),
            &["\"\\x00short\" in the table of deadlines is no entry"],
        ),
        (
            |tables| {
                drop(
                    tables.elements.delete(&tables.elements.range::<[u8]>(..).unwrap().next_back().unwrap().unwrap().0),
                )
            },
            &["damage in database 3 at key \"h\", id 6: the record says 1 elements, and there are 0 (KEYS-3)"],
        ),
        (
            |tables| tables.elements.put(&element_key(0, 99, b"e"), b"v").unwrap(),
            &["leak in database 0, id 99: 1 elements of no collection (KEYS-3)"],
        ),
        (
            |tables| tables.elements.put(&element_key(2, 1, b"e"), b"v").unwrap(),
            &["leak in database 2, id 1: 1 elements of no collection (KEYS-3)"],
        ),
        (|tables| tables.elements.put(b"\0\0\0", b"v").unwrap(), &["in the table of elements is no element"]),
        (|tables| tables.elements.put(b"", b"v").unwrap(), &["in the table of elements is no element"]),
        (|tables| tables.state.put(b"spaces", &[3; 16]).unwrap(), &["spaces of the databases name some twice"]),
        (
            |tables| tables.state.put(b"function other", b"#!lua name=lib\n").unwrap(),
            &["the library \"other\" has another first line"],
        ),
        (
            |tables| tables.keys.put(b"", b"v").unwrap(),
            &["a record of 1 bytes, type 118, is none that a server writes"],
        ),
        (
            |tables| tables.keys.put(b"\0k", b"").unwrap(),
            &["a record of 0 bytes, nothing, is none that a server writes"],
        ),
        (
            |tables| tables.keys.put(&record_key(20, b"k"), &string(0, b"v")).unwrap(),
            &["no database has the number 20"],
        ),
        (
            |tables| {
                tables.keys.put(&record_key(1, b"k"), &string(u64::MAX, b"v")).unwrap();
                tables.deadlines.put(&deadline_key(1, u64::MAX, b"k"), b"").unwrap();
            },
            &["is above the largest one"],
        ),
        (
            |tables| tables.state.put(b"next id", &6_u64.to_le_bytes()).unwrap(),
            &["id 6 was never given: the next one is 6"],
        ),
        (
            |tables| tables.state.put(b"next id", b"5").unwrap(),
            &[
                "`next id` in the table of state is no number",
                "id 3 was",
                "id 1 was",
                "id 2 was",
                "id 4 was",
                "id 6 was",
                "id 5 was",
            ],
        ),
        (
            |tables| tables.elements.put(&element_key(0, 4, &[0]), b"short").unwrap(),
            &["damage in database 0 at key \"x\", id 4: element \"\\x00\" is not the state of a stream (format)"],
        ),
        (
            |tables| tables.elements.put(&element_key(0, 4, b"odd"), b"v").unwrap(),
            &[
                "the record says 2 elements, and there are 3 (KEYS-3)",
                "element \"odd\" is no entry of a stream (format)",
            ],
        ),
        (
            |tables| tables.elements.put(&element_key(0, 4, &[0]), &[0; 40]).unwrap(),
            &["damage in database 0 at key \"x\", id 4: entry 1-1 lies behind the stream's last id (STREAM-1)"],
        ),
        (|tables| tables.state.put(b"other", b"5").unwrap(), &["unknown entry \"other\""]),
        (|tables| tables.state.put(b"layout", &0_u64.to_le_bytes()).unwrap(), &["the number of the layout is 0"]),
        (|tables| drop(tables.state.delete(b"layout")), &["the number of the layout is missing"]),
        (
            |tables| tables.state.put(b"layout", &9_u64.to_le_bytes()).unwrap(),
            &["note: the layout is 9, and this program knows 1"],
        ),
    ];
    for (damage, expected) in damages {
        let served = Served::new(ALL);
        damage(&served.tables());
        let findings = served.findings();
        let fit = findings.iter().zip(*expected).all(|(finding, expected)| finding.contains(expected));
        assert!(fit && findings.len() == expected.len(), "{expected:?} expected, found {findings:#?}");
    }
    type Wrong<'d> = (&'d dyn Fn(&Tables), &'d str);
    let wrong: &[Wrong<'_>] = &[
        (
            &|tables| change(tables, b"l", &|list| list.count += 1),
            "the record says 5 elements, and there are 4 (KEYS-3)",
        ),
        (&|tables| change(tables, b"l", &|list| list.first += 1), "element 0 lies at \"\\x7f\\xff"),
        (&|tables| change(tables, b"s", &|set| set.first = 1), "and it is no list"),
        (
            &|tables| {
                let at = element(tables, b"l", &(1_u64 << 63).to_be_bytes());
                tables.elements.delete(&at).unwrap();
                change(tables, b"l", &|list| list.count -= 1);
            },
            "and not at place 0x8000000000000000, and 1 more are wrong (LIST-1)",
        ),
        (
            &|tables| {
                tables.elements.put(&element(tables, b"s", b"12345678q"), b"").unwrap();
                change(tables, b"s", &|set| set.count += 1);
            },
            "element \"12345678q\" does not begin with its hash (format)",
        ),
        (
            &|tables| {
                tables.elements.put(&element(tables, b"h", b"1234"), b"v").unwrap();
                change(tables, b"h", &|hash| hash.count += 1);
            },
            "element \"1234\" does not begin with its hash (format)",
        ),
        (
            &|tables| tables.elements.put(&element(tables, b"s", &hashed(b"m")), b"v").unwrap(),
            "has a value of 1 bytes (format)",
        ),
        (
            &|tables| {
                let at = element(tables, b"s", b"");
                let (from, to) = (at.clone(), super::super::after_prefix(&at).unwrap());
                let mut batch = tables.kv.batch();
                batch.table(&tables.elements).unwrap().delete_range(from..to).unwrap();
                tables.kv.settle(batch.commit().unwrap()).unwrap();
                change(tables, b"s", &|set| set.count = 0);
            },
            "a record of 40 bytes, type 3, is none that a server writes (format)",
        ),
        (
            &|tables| {
                let list = record(&tables.keys, 0, b"l");
                tables.keys.put(&record_key(0, b"m"), &Collection { deadline: 0, ..list }.bytes()).unwrap();
            },
            "double use in database 0 at key \"l\", id 1: 1 further records have the same id (KEYS-3)",
        ),
    ];
    for (damage, expected) in wrong {
        let served = Served::new(ALL);
        damage(&served.tables());
        let findings = served.findings();
        assert!(findings.len() == 1 && findings[0].contains(expected), "{expected:?} expected, found {findings:#?}");
    }
}

/// Elements of no collection may belong to a record that cannot be read: then they are no leak.
#[test]
fn a_record_that_cannot_be_read_may_own_elements() {
    let served = Served::new(ALL);
    served.tables().keys.put(&record_key(0, b"s"), b"\x09").unwrap();
    let findings = served.findings();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("a record of 1 bytes, type 9"), "{findings:?}");
    assert!(
        findings[1].contains("note in database 0, id 2: 3 elements of no collection; a record that"),
        "{findings:?}"
    );
}

/// However few collections are held in memory, the findings are the same.
#[test]
fn the_bound_of_memory_changes_no_finding() {
    let lines: Vec<String> = (0..300)
        .map(|number| match number % 3 {
            _ if number % 100 == 50 => format!("SELECT {}", number / 100),
            0 => format!("RPUSH key{} a b", number * 7919 % 1000),
            1 => format!("SADD key{} m n o", number * 7919 % 1000),
            _ => format!("HSET key{} f v", number * 7919 % 1000),
        })
        .collect();
    let served = Served::new(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let tables = served.tables();
    let (sums, findings) = served.check(OWNERS_SIZE);
    assert!(findings.is_empty() && sums.unwrap().collections == 297, "{sums:?} {findings:?}");
    let keys: Vec<_> = tables.keys.range::<[u8]>(..).unwrap().map(Result::unwrap).collect();
    for (place, (key, value)) in keys.iter().enumerate() {
        match place % 20 {
            0 => drop(tables.keys.delete(key).unwrap()),
            1 => tables.keys.put(&[&key[..], b"again"].concat(), value).unwrap(),
            2 => tables.keys.put(key, &[&value[..24], &9_u64.to_le_bytes(), &value[32..]].concat()).unwrap(),
            _ => {}
        }
    }
    let whole = served.check(OWNERS_SIZE);
    let sorted = |(sums, mut findings): (Option<KeyspaceSums>, Vec<String>)| {
        findings.sort();
        (sums, findings)
    };
    let whole = sorted(whole);
    assert_eq!(whole.1.len(), 45);
    for size in [0, 1000, 5000, 20_000] {
        assert_eq!(sorted(served.check(size)), whole, "{size} bytes");
    }
}

/// Records of any type, count and place, whatever their elements are: commands are answered, and
/// no list announces more elements than it has.
#[test]
fn records_that_lie_make_nothing_panic() {
    for (round, kind) in ["l", "s", "h"].iter().flat_map(|key| [*key; 6]).enumerate() {
        let served = Served::new(ALL);
        let tables = served.tables();
        let mut lying = record(&tables.keys, 0, kind.as_bytes());
        match round % 6 {
            0 => lying.count = 0,
            1 => lying.count = 1 << 48,
            2 => lying.count = u64::MAX,
            3 => (lying.first, lying.count) = (u64::MAX, 9),
            4 => (lying.id, lying.first) = (u64::MAX, 0),
            _ => lying.kind = if lying.kind == ValueType::List { ValueType::Hash } else { ValueType::List },
        }
        tables.keys.put(&record_key(0, kind.as_bytes()), &lying.bytes()).unwrap();
        drop(tables);
        assert!(!served.findings().is_empty(), "{lying:?}");
        let mut server = ServerScript::open(served.kv.clone(), 1, false, Options::default()).unwrap();
        for command in COMMANDS {
            // Each command meets the lie.
            let key = record_key(0, kind.as_bytes());
            let replies = server.iteration(&[(0, requests(&[command]))]).unwrap();
            assert!(!replies[0].is_empty() && !replies[0].starts_with(b"*281474976710656"), "{command}: {lying:?}");
            served.tables().keys.put(&key, &lying.bytes()).unwrap();
        }
    }
}

const COMMANDS: &[&str] = &[
    "SELECT 0",
    "KEYS *",
    "DBSIZE",
    "GET brief",
    "LRANGE l 0 -1",
    "LPOP l",
    "LINSERT l BEFORE b x",
    "LREM l 0 a",
    "LMOVE l l LEFT RIGHT",
    "SMEMBERS s",
    "SRANDMEMBER s 3",
    "SPOP s",
    "SSCAN s 0",
    "HGETALL h",
    "HSCAN h 0",
    "HRANDFIELD h -3",
    "HINCRBY h n 1",
    "PERSIST l",
    "COPY h h DB 3 REPLACE",
    "RENAME s t",
    "SELECT 3",
    "SCAN 0",
    "TYPE l",
    "PEXPIRE h 1",
    "RPUSH l a",
    "FLUSHDB",
];

/// Any bytes in the tables: the check ends, and commands are answered.
#[test]
fn damaged_tables_make_nothing_panic() {
    let mut random = Random::new(everbyte_workload::seed(7, "-p everbyte-server --lib damaged_tables"));
    let mut told = 0;
    for round in 0..30 {
        let served = Served::new(ALL);
        let tables = served.tables();
        for _ in 0..1 + random.index(4) {
            let table = [&tables.keys, &tables.elements, &tables.deadlines, &tables.state][random.index(4)];
            let all: Vec<_> = table.range::<[u8]>(..).unwrap().map(Result::unwrap).collect();
            let Some((mut key, mut value)) = all.get(random.index(all.len().max(1))).cloned() else { continue };
            table.delete(&key).unwrap();
            for bytes in [&mut key, &mut value] {
                let at = random.index(bytes.len() + 1);
                match random.index(5) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, random.next() as u8),
                    2 if at < bytes.len() => bytes[at] ^= 1 << random.index(8),
                    3 if at < bytes.len() => bytes[at] = random.next() as u8,
                    _ => {}
                }
            }
            table.put(&key, &value).unwrap();
        }
        drop(tables);
        let (_, findings) = served.check([0, 300, OWNERS_SIZE][round % 3]);
        told += usize::from(!findings.is_empty());
        if let Ok(mut server) = ServerScript::open(served.kv.clone(), 1, false, Options::default()) {
            for command in COMMANDS {
                server.iteration(&[(0, requests(&[command]))]).unwrap();
            }
        }
    }
    assert!(told > 18, "{told} of 30 damaged stores were told of");
}

/// ZSET-1: either half of a sorted set is changed; and elements that no sorted set has.
#[test]
fn sorted_sets_whose_halves_differ_are_found() {
    use crate::keyspace::encode_score;
    let by_member = |member: &[u8]| [b"m", &hashed(member)[..]].concat();
    let by_score = |score: f64, member: &[u8]| [b"s", &encode_score(score)[..], member].concat();
    let [by_b, at_b] = [by_member(b"b"), by_score(2.0, b"b")];
    let one = encode_score(1.0);
    // Elements of `z` and the values that they get; without one they are removed.
    type Changes<'c> = &'c [(&'c [u8], Option<&'c [u8]>)];
    let damages: &[(Changes<'_>, &[&str])] = &[
        (&[(&at_b, None), (&by_score(4.0, b"b"), Some(b""))], &["ZSET-1"]),
        (&[(&by_b, Some(&one))], &["ZSET-1"]),
        (&[(&at_b, None)], &["ZSET-1", "KEYS-3"]),
        (&[(&by_b, None)], &["ZSET-1", "KEYS-3"]),
        (&[(&at_b, Some(b"v"))], &["format"]),
        (&[(&by_b, Some(&[0xff; 8]))], &["format"]),
        (&[(&by_b, Some(b"short"))], &["format"]),
        (&[(b"x", Some(b""))], &["format", "KEYS-3"]),
    ];
    for (changes, rules) in damages {
        let served = Served::new(&["ZADD z 1 a 2 b -3 c", "ZADD y 1 a"]);
        assert_eq!(served.findings(), Vec::<String>::new());
        let tables = served.tables();
        let id = record(&tables.keys, 0, b"z").id;
        for (element, value) in *changes {
            let key = element_key(0, id, element);
            match value {
                Some(value) => tables.elements.put(&key, value).unwrap(),
                None => assert!(tables.elements.delete(&key).unwrap()),
            }
        }
        let findings = served.findings();
        assert_eq!(findings.len(), rules.len(), "{findings:?}");
        for rule in *rules {
            assert!(findings.iter().any(|finding| finding.contains(rule) && finding.contains('z')), "{findings:?}");
        }
    }
}

/// Elements of consumer groups that disagree are found.
#[test]
fn groups_whose_elements_differ_are_found() {
    let served = Served::new(GROUPS);
    assert_eq!(served.findings(), Vec::<String>::new());
    let tables = served.tables();
    let id = record(&tables.keys, 0, b"x").id;
    let prefix = element_key(0, id, b"");
    let elements: Vec<(Vec<u8>, Vec<u8>)> =
        tables.elements.range(prefix.clone()..).unwrap().map(Result::unwrap).collect();
    let of = |kind: &[u8]| -> Vec<usize> {
        let is = |element: &[u8]| match kind {
            [kind] => element.first() == Some(kind),
            [first, kind] => element.first() == Some(first) && element.get(9) == Some(kind),
            _ => false,
        };
        (0..elements.len()).filter(|place| is(&elements[*place].0[prefix.len()..])).collect()
    };
    let (groups, names, numbers, ids, consumers) = (of(&[2]), of(&[3, 0]), of(&[3, 1]), of(&[3, 2]), of(&[3, 3]));
    assert_eq!([groups.len(), names.len(), numbers.len(), ids.len(), consumers.len()], [3, 3, 3, 4, 4]);
    // The element at a place gets a value, or goes.
    let flipped = |place: usize, at: usize| {
        let mut value = elements[place].1.clone();
        value[at] ^= 1;
        Some(value)
    };
    let damages: &[(usize, Option<Vec<u8>>, &str)] = &[
        (groups[0], None, "STREAM-3"),
        (groups[0], flipped(groups[0], 0), "STREAM-3"),
        (groups[0], flipped(groups[0], 32), "STREAM-3"),
        (groups[0], flipped(groups[0], 40), "STREAM-3"),
        (groups[0], Some(b"short".to_vec()), "format"),
        (names[0], None, "STREAM-2"),
        (names[0], flipped(names[0], 0), "STREAM-2"),
        (names[0], flipped(names[0], 16), "STREAM-3"),
        (numbers[1], None, "STREAM-2"),
        (numbers[1], Some(b"v".to_vec()), "format"),
        (ids[1], None, "STREAM-2"),
        (ids[1], flipped(ids[1], 0), "STREAM-2"),
        (ids[1], Some(vec![0; 25]), "format"),
        (consumers[2], None, "STREAM-2"),
        (consumers[2], Some(b"v".to_vec()), "format"),
    ];
    for (place, value, rule) in damages {
        let (key, old) = &elements[*place];
        match value {
            Some(value) => tables.elements.put(key, value).unwrap(),
            None => assert!(tables.elements.delete(key).unwrap()),
        }
        let findings = served.findings();
        let fits = findings.len() == 1 && findings[0].contains(rule) && findings[0].contains("key \"x\"");
        assert!(fits, "element {place}, {rule}: {findings:?}");
        tables.elements.put(key, old).unwrap();
    }
    for odd in [&[3][..], &[3, 0, 0, 0, 0, 0, 0, 0, 9], &[3, 0, 0, 0, 0, 0, 0, 0, 9, 7], &[4]] {
        let key = element_key(0, id, odd);
        tables.elements.put(&key, b"").unwrap();
        let findings = served.findings();
        assert!(findings.iter().any(|finding| finding.contains("format")), "{odd:?}: {findings:?}");
        tables.elements.delete(&key).unwrap();
    }
    assert_eq!(served.findings(), Vec::<String>::new());
}

/// Three groups of a stream: two with consumers and pending entries, one without.
const GROUPS: &[&str] = &[
    "XADD x 1-1 f v",
    "XADD x 1-2 f v",
    "XADD x 1-3 f v",
    "XGROUP CREATE x g 0",
    "XGROUP CREATE x h 0",
    "XGROUP CREATE x idle $",
    "XREADGROUP GROUP g c COUNT 2 STREAMS x >",
    "XREADGROUP GROUP g d STREAMS x >",
    "XREADGROUP GROUP h e COUNT 1 STREAMS x >",
];

/// Any bytes in the elements of groups: the check ends, and commands are answered.
#[test]
fn damaged_groups_make_nothing_panic() {
    const COMMANDS: &[&str] = &[
        "XINFO STREAM x FULL",
        "XINFO GROUPS x",
        "XINFO CONSUMERS x g",
        "XPENDING x g",
        "XPENDING x g - + 10",
        "XPENDING x g - + 10 d",
        "XREADGROUP GROUP g c STREAMS x 0",
        "XADD x 9-9 f v",
        "XREADGROUP GROUP g d STREAMS x >",
        "XCLAIM x g e 0 1-1 1-2 9-9 FORCE",
        "XAUTOCLAIM x h c 0 0",
        "XACK x g 1-1 1-2 1-3",
        "COPY x y",
        "XGROUP DELCONSUMER x g d",
        "XGROUP DESTROY y g",
        "DEL x",
    ];
    let mut random = Random::new(everbyte_workload::seed(9, "-p everbyte-server --lib damaged_groups"));
    let mut told = 0;
    for _ in 0..40 {
        let served = Served::new(GROUPS);
        let tables = served.tables();
        let all: Vec<_> = tables.elements.range::<[u8]>(..).unwrap().map(Result::unwrap).collect();
        for _ in 0..1 + random.index(3) {
            let (mut key, mut value) = all[random.index(all.len())].clone();
            tables.elements.delete(&key).unwrap();
            // Behind the stream's id, so that it stays one of the stream.
            let (from, size) = (9.min(key.len()), key.len());
            match random.index(5) {
                0 => key.truncate(from + random.index(size - from + 1)),
                1 => key.insert(from + random.index(size - from + 1), random.next() as u8),
                2 if size > from => key[from + random.index(size - from)] ^= 1 << random.index(8),
                3 if !value.is_empty() => value.truncate(random.index(value.len())),
                _ if !value.is_empty() => {
                    let at = random.index(value.len());
                    value[at] = random.next() as u8;
                }
                _ => {}
            }
            tables.elements.put(&key, &value).unwrap();
        }
        drop(tables);
        told += usize::from(!served.findings().is_empty());
        let mut server = ServerScript::open(served.kv.clone(), 1, false, Options::default()).unwrap();
        for command in COMMANDS {
            let replies = server.iteration(&[(0, requests(&[command]))]).unwrap();
            assert!(!replies[0].is_empty(), "{command}");
        }
    }
    assert!(told > 20, "{told} of 40 damaged stores were told of");
}
