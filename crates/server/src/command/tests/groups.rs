//! Consumer groups beside a list: deliveries, acknowledgements, claims, deletions, and the elements
//! that are left.

use super::Desk;
use super::hashes::replies;
use crate::keyspace::check;
use crate::options::Options;
use everbyte_kv::ManualClock;
use everbyte_media::museum;
use everbyte_workload::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn findings(desk: &Desk) -> Vec<String> {
    let mut findings = Vec::new();
    check(&desk.shared.kv, &mut |finding| findings.push(finding.to_string()));
    findings
}

/// A pending entry: its consumer, when it was delivered, and how often.
type Held = (usize, u64, u64);

fn entries(ids: impl ExactSizeIterator<Item = u64>) -> String {
    let head = format!("*{}\r\n", ids.len());
    let text = |id: &u64| format!("*2\r\n${}\r\n{id}-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n", id.to_string().len() + 2);
    ids.fold(head, |all, id| all + &text(&id))
}

/// Whether random commands about a group do what they do to a map of its pending entries.
fn agrees(seed: u64, bug: &'static str) -> bool {
    const CONSUMERS: [&[u8]; 3] = [b"c", b"d", b"e"];
    museum::with(bug, || {
        let mut random = Random::new(seed);
        let clock = ManualClock::default();
        let mut desk = Desk::new(Options { clock: Arc::new(clock.clone()), ..Options::default() });
        replies(&mut desk, &[b"XGROUP", b"CREATE", b"s", b"g", b"0", b"MKSTREAM"]);
        CONSUMERS.iter().for_each(|name| {
            replies(&mut desk, &[b"XGROUP", b"CREATECONSUMER", b"s", b"g", name]);
        });
        let (mut there, mut pending) = (BTreeSet::new(), BTreeMap::<u64, Held>::new());
        let (mut added, mut last, mut now) = (0_u64, 0_u64, 1_000_000_u64);
        for round in 0..600 {
            now += random.below(50);
            clock.set(UNIX_EPOCH + Duration::from_millis(now));
            let who = random.index(3);
            let some = |random: &mut Random| 1 + random.below(added.max(1));
            let (reply, wanted) = match random.index(8) {
                0 | 1 => {
                    for _ in 0..1 + random.index(20) {
                        added += 1;
                        there.insert(added);
                        let id = format!("{added}-0");
                        replies(&mut desk, &[b"XADD", b"s", id.as_bytes(), b"f", b"v"]);
                    }
                    continue;
                }
                2 | 3 => {
                    let count = 1 + random.index(30);
                    let ids: Vec<u64> = there.range(last + 1..).take(count).copied().collect();
                    let words: [&[u8]; 9] = [
                        b"XREADGROUP",
                        b"GROUP",
                        b"g",
                        CONSUMERS[who],
                        b"COUNT",
                        &count.to_string().into_bytes(),
                        b"STREAMS",
                        b"s",
                        b">",
                    ];
                    let reply = replies(&mut desk, &words);
                    for id in &ids {
                        pending.insert(*id, (who, now, 1));
                        last = *id;
                    }
                    let list = entries(ids.iter().copied());
                    (reply, if ids.is_empty() { "*-1\r\n".into() } else { format!("*1\r\n*2\r\n$1\r\ns\r\n{list}") })
                }
                4 => {
                    let ids = [some(&mut random), some(&mut random), some(&mut random)];
                    let [a, b, c] = ids.map(|id| format!("{id}-0"));
                    let reply = replies(&mut desk, &[b"XACK", b"s", b"g", a.as_bytes(), b.as_bytes(), c.as_bytes()]);
                    let gone = ids.iter().filter(|id| pending.remove(id).is_some()).count();
                    (reply, format!(":{gone}\r\n"))
                }
                5 => {
                    let id = some(&mut random);
                    let words: [&[u8]; 6] =
                        [b"XCLAIM", b"s", b"g", CONSUMERS[who], b"20", &format!("{id}-0").into_bytes()];
                    let reply = replies(&mut desk, &words);
                    let mut ids = Vec::new();
                    if !there.contains(&id) {
                        pending.remove(&id);
                    } else if let Some(held) = pending.get_mut(&id).filter(|held| now - held.1 >= 20) {
                        *held = (who, now, held.2 + 1);
                        ids.push(id);
                    }
                    (reply, entries(ids.into_iter()))
                }
                6 => {
                    let start = some(&mut random);
                    let words: [&[u8]; 8] = [
                        b"XAUTOCLAIM",
                        b"s",
                        b"g",
                        CONSUMERS[who],
                        b"0",
                        &format!("{start}-0").into_bytes(),
                        b"COUNT",
                        b"3",
                    ];
                    let reply = replies(&mut desk, &words);
                    let (mut claimed, mut gone, mut end) = (Vec::new(), Vec::new(), "0-0".to_string());
                    for id in pending.range(start..).map(|(id, _)| *id).collect::<Vec<_>>() {
                        if claimed.len() + gone.len() == 3 {
                            end = format!("{id}-0");
                            break;
                        }
                        if there.contains(&id) {
                            claimed.push(id);
                            let held = pending.get_mut(&id).expect("it is there");
                            *held = (who, now, held.2 + 1);
                        } else {
                            gone.push(format!("${}\r\n{id}-0\r\n", id.to_string().len() + 2));
                            pending.remove(&id);
                        }
                    }
                    let head = format!("*3\r\n${}\r\n{end}\r\n", end.len());
                    (reply, format!("{head}{}*{}\r\n{}", entries(claimed.into_iter()), gone.len(), gone.concat()))
                }
                _ if round % 40 == 0 => {
                    let held = pending.values().filter(|held| held.0 == who).count();
                    let reply = replies(&mut desk, &[b"XGROUP", b"DELCONSUMER", b"s", b"g", CONSUMERS[who]]);
                    pending.retain(|_, held| held.0 != who);
                    replies(&mut desk, &[b"XGROUP", b"CREATECONSUMER", b"s", b"g", CONSUMERS[who]]);
                    (reply, format!(":{held}\r\n"))
                }
                _ => {
                    let id = some(&mut random);
                    let reply = replies(&mut desk, &[b"XDEL", b"s", format!("{id}-0").as_bytes()]);
                    (reply, format!(":{}\r\n", u8::from(there.remove(&id))))
                }
            };
            if reply != wanted {
                return false;
            }
            if round % 20 == 0 {
                let reply = replies(&mut desk, &[b"XPENDING", b"s", b"g", b"-", b"+", b"100000"]);
                let mut wanted = format!("*{}\r\n", pending.len());
                for (id, (consumer, delivered, deliveries)) in &pending {
                    let (size, name) = (id.to_string().len() + 2, char::from(CONSUMERS[*consumer][0]));
                    let idle = now - delivered;
                    wanted += &format!("*4\r\n${size}\r\n{id}-0\r\n$1\r\n{name}\r\n:{idle}\r\n:{deliveries}\r\n");
                }
                if reply != wanted || !findings(&desk).is_empty() {
                    return false;
                }
            }
        }
        replies(&mut desk, &[b"COPY", b"s", b"t"]);
        let summary = replies(&mut desk, &[b"XPENDING", b"t", b"g"]);
        let is_same = summary == replies(&mut desk, &[b"XPENDING", b"s", b"g"]);
        replies(&mut desk, &[b"XGROUP", b"DESTROY", b"t", b"g"]);
        let is_sound = findings(&desk).is_empty();
        replies(&mut desk, &[b"DEL", b"s", b"t"]);
        is_same && is_sound && desk.shared.tables.elements.is_empty().unwrap()
    })
}

#[test]
fn groups_do_what_a_map_does() {
    let seed = everbyte_workload::seed(7, "groups");
    assert!(agrees(seed, "none"), "seed {seed}");
    for bug in [
        "server-delivered-twice",
        "server-claim-kept",
        "server-ack-half",
        "server-ack-uncounted",
        "server-pending-uncounted",
        "server-group-elements-kept",
    ] {
        assert!(!agrees(seed, bug), "{bug} is found");
    }
}

/// A refused command about a group changes nothing, and costs the others of its iteration nothing.
#[test]
fn a_failing_command_about_a_group_costs_others_nothing() {
    let mut desk = Desk::new(Options { output_size_max: 1000, ..Options::default() });
    let large = vec![b'v'; 400];
    replies(&mut desk, &[b"XGROUP", b"CREATE", b"s", b"g", b"0", b"MKSTREAM"]);
    for name in [b"s", b"s", b"s", b"t"] {
        replies(&mut desk, &[b"XADD", name, b"*", b"f", &large]);
    }
    replies(&mut desk, &[b"XGROUP", b"CREATE", b"t", b"g", b"0"]);
    replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"1", b"STREAMS", b"t", b">"]);
    replies(&mut desk, &[b"XADD", b"t", b"*", b"f", &large]);
    let long = vec![b'k'; crate::keyspace::KEY_SIZE_MAX + 1];
    let ends = desk.iteration(&[
        &[b"SET", b"before", b"1"],
        &[b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"s", b">"],
        &[b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"2", b"STREAMS", b"s", b"t", b">", b">"],
        &[b"XREADGROUP", b"GROUP", b"g", &long, b"COUNT", b"1", b"STREAMS", b"s", b">"],
        &[b"XGROUP", b"CREATE", b"s", &long, b"0"],
        &[b"XGROUP", b"CREATECONSUMER", b"s", b"g", &long],
        &[b"XCLAIM", b"t", b"g", &long, b"0", b"1-1"],
        &[b"XACK", b"t", b"g", b"1-1", b"x"],
        &[b"SET", b"after", b"1"],
    ]);
    let refused: Vec<bool> = ends.iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, true, true, true, true, true, true, true, false], "{ends:?}");
    desk.out.send(&mut std::io::sink()).unwrap();
    assert_eq!(replies(&mut desk, &[b"EXISTS", b"before", b"after"]), ":2\r\n");
    assert_eq!(replies(&mut desk, &[b"XPENDING", b"s", b"g"]), "*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n");
    assert_eq!(findings(&desk), Vec::<String>::new());
}

/// Claims of more pending entries than have room beside the reply are refused, and change nothing:
/// also of those that the stream has lost, of which XCLAIM tells nothing.
#[test]
fn claims_of_many_entries_are_bounded() {
    const COUNT: usize = 20;
    let mut desk = Desk::new(Options { output_size_max: 2400, ..Options::default() });
    let ids: Vec<String> = (1..=COUNT).map(|number| format!("{number}-0")).collect();
    replies(&mut desk, &[b"XGROUP", b"CREATE", b"s", b"g", b"0", b"MKSTREAM"]);
    for id in &ids {
        replies(&mut desk, &[b"XADD", b"s", id.as_bytes(), b"f", b"v"]);
        replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"1", b"STREAMS", b"s", b">"]);
    }
    let words = |name: &'static str, behind: &[&'static str], ids: &[String]| -> Vec<Vec<u8>> {
        let head = [name, "s", "g", "d", "0"].into_iter().map(String::from);
        let all = head.chain(ids.iter().cloned()).chain(behind.iter().map(|word| word.to_string()));
        all.map(String::into_bytes).collect()
    };
    for lost in [false, true] {
        if lost {
            ids.iter().for_each(|id| drop(replies(&mut desk, &[b"XDEL", b"s", id.as_bytes()])));
        }
        for words in [words("XAUTOCLAIM", &["0", "COUNT", "1000", "JUSTID"], &[]), words("XCLAIM", &["JUSTID"], &ids)] {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let end = desk.iteration(&[&words]).remove(0);
            assert!(end.is_err_and(|text| text.contains("output limit")), "lost: {lost}");
            let pending = replies(&mut desk, &[b"XPENDING", b"s", b"g"]);
            assert!(pending.starts_with(&format!("*4\r\n:{COUNT}\r\n")) && !pending.contains("$1\r\nd\r\n"));
        }
    }
    // A part of them at a time.
    let reply = replies(&mut desk, &[b"XAUTOCLAIM", b"s", b"g", b"d", b"0", b"0", b"COUNT", b"10"]);
    assert!(reply.starts_with("*3\r\n$4\r\n11-0\r\n*0\r\n*10\r\n$3\r\n1-0\r\n"), "{reply}");
    assert_eq!(findings(&desk), Vec::<String>::new());
}

/// A consumer with more pending entries than are read together is told of whole, and goes whole.
#[test]
fn a_consumer_of_many_pending_entries_is_read_and_removed_in_pieces() {
    const COUNT: usize = 2 * crate::keyspace::PENDING_TOGETHER + 10;
    let mut desk = Desk::new(Options::default());
    replies(&mut desk, &[b"XGROUP", b"CREATE", b"s", b"g", b"0", b"MKSTREAM"]);
    for number in 1..=COUNT {
        replies(&mut desk, &[b"XADD", b"s", format!("{number}-0").as_bytes(), b"f", b"v"]);
    }
    replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"s", b">"]);
    let all = format!("*{COUNT}\r\n");
    for consumer in [&[][..], &[&b"c"[..]]] {
        let words = [&[&b"XPENDING"[..], b"s", b"g", b"-", b"+", b"9999"], consumer].concat();
        assert!(replies(&mut desk, &words).starts_with(&all));
    }
    let history = replies(&mut desk, &[b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"s", b"0"]);
    assert!(history.contains(&format!("$1\r\ns\r\n{all}")));
    let gone = replies(&mut desk, &[b"XGROUP", b"DELCONSUMER", b"s", b"g", b"c"]);
    assert_eq!(gone, format!(":{COUNT}\r\n"));
    assert_eq!(replies(&mut desk, &[b"XPENDING", b"s", b"g"]), "*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n");
    assert_eq!(findings(&desk), Vec::<String>::new());
}
