//! Cases of the server: commands of several clients, executed in iterations, beside a plain model
//! of its databases.

use crate::Case;
use crate::kv_tables::image_up_to;
use crate::server_model::Databases;
use crate::server_script::{Program, Reply, Server, is_error, observe};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Twin};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "server-strings",
        crate_name: "server",
        about: "strings get and lose deadlines, move, expire and are swept: each iteration is whole, its tables agree",
        total: TOTAL,
        program: strings,
    },
    Case {
        name: "server-sets",
        crate_name: "server",
        about: "hashes and sets are made, combined, expire and are made again: counts and elements change together",
        total: TOTAL,
        program: sets,
    },
    Case {
        name: "server-lists",
        crate_name: "server",
        about: "lists grow, shrink and shift at both ends and in the middle: places stay without gaps",
        total: TOTAL,
        program: lists,
    },
    Case {
        name: "server-scores",
        crate_name: "server",
        about: "members of sorted sets get other scores, are popped and combined: both of their elements change together",
        total: TOTAL,
        program: scores,
    },
    Case {
        name: "server-streams",
        crate_name: "server",
        about: "streams grow, are trimmed and emptied: entries, count and last id change together",
        total: TOTAL,
        program: streams,
    },
    Case {
        name: "server-groups",
        crate_name: "server",
        about: "consumer groups deliver, acknowledge, claim and go: last ids, counts and both lists change together",
        total: TOTAL,
        program: groups,
    },
    Case {
        name: "server-waiting",
        crate_name: "server",
        about: "clients wait for elements, members and entries that others bring: both happen together, and are told after",
        total: TOTAL,
        program: waiting,
    },
    Case {
        name: "server-databases",
        crate_name: "server",
        about: "values of all types are copied, moved and renamed over databases, some flushed: whole or not at all",
        total: TOTAL,
        program: databases,
    },
    Case {
        name: "server-swaps",
        crate_name: "server",
        about: "databases are exchanged, alone, in transactions that are taken back, and pending: both or neither",
        total: TOTAL,
        program: swaps,
    },
    Case {
        name: "server-transactions",
        crate_name: "server",
        about: "transactions of several clients, some refused by a full store, then careful iterations: each is whole",
        total: TOTAL,
        program: transactions,
    },
    Case {
        name: "server-evictions",
        crate_name: "server",
        about: "commands need more room than there is, and keys of all types are evicted: both happen together",
        total: TOTAL,
        program: evictions,
    },
    Case {
        name: "server-scripts",
        crate_name: "server",
        about: "functions are kept, replaced and called, some refused by a full store: each call is whole, as its library is",
        total: TOTAL,
        program: scripts,
    },
    Case {
        name: "server-pending",
        crate_name: "server",
        about: "iterations that build on pending ones, settled by another thread: no reply before its settlement",
        total: TOTAL,
        program: pending,
    },
];

/// Each image is read several times, by commands.
const TOTAL: u64 = 1200;
/// The clock as a script begins.
const START: u64 = 1_000_000_000_000;
/// Bytes of a store at most.
pub(crate) const MAX: u64 = 4 << 20;

/// A store that has served these lines, and what it holds.
pub(crate) fn served(max: u64, lines: &[&str]) -> (Image, Databases) {
    let image = image_up_to(max, &|kv| {
        let mut server = Server::open(kv, false).expect("room");
        let lines = Vec::from_iter(lines.iter().map(|line| line.to_string()));
        server.ask(START, &lines).expect("room");
    });
    let kv = crate::kv::open(&image.media()).expect("a whole store");
    let all = Server::open(&kv, false).and_then(|mut server| server.read(START)).expect("whole tables");
    (image, all)
}

/// Explores a script whose iterations are a second apart.
fn explore(
    explorer: Explorer,
    (image, all): (Image, Databases),
    run: impl Fn(&mut Program<'_>),
    settles_later: bool,
) -> Result<Report, Box<Failure>> {
    let program = |media: Media, twin: &Twin<'_, Databases>| {
        let mut program = Program::new(&media, twin, settles_later);
        run(&mut program);
        program.compare();
    };
    explorer
        .recovery(64, 2)
        .floor(8)
        .explore_twin(&image, &all, Order::InOrder, program, |media, seen| observe(&media, seen))
}

/// The lines of one client in an iteration.
type Sent<'l> = (usize, &'l [&'l str]);

/// Explores iterations that begin at these milliseconds behind the start.
fn script(
    explorer: Explorer,
    start: (Image, Databases),
    iterations: &[(u64, &[Sent<'_>])],
) -> Result<Report, Box<Failure>> {
    let run = |program: &mut Program<'_>| {
        for (at, lines) in iterations {
            program.iteration(START + at, lines);
        }
    };
    explore(explorer, start, run, false)
}

fn strings(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // No server has opened the store: its tables are made in the program.
    let image = image_up_to(MAX, &|kv| {
        kv.put(b"a", b"plain").expect("room");
        kv.put(b"b", &[b'b'; 900]).expect("room");
    });
    let kv = crate::kv::open(&image.clone().media()).expect("a whole store");
    let all = Server::open(&kv, false).and_then(|mut server| server.read(START)).expect("whole tables");
    script(
        explorer,
        (image, all),
        &[
            (
                1000,
                &[
                    (0, &["SET c see PXAT 1000000003500", "SET d ~700d PXAT 1000000002500"]),
                    (1, &["SET a anew PXAT 1000000003500", "APPEND c more"]),
                ],
            ),
            (
                2000,
                &[
                    (0, &["RENAME c e", "PERSIST d"]),
                    (2, &["SET b ~800x PXAT 1000000009000", "SET f plain", "PEXPIREAT f 1000000002500"]),
                ],
            ),
            // No sweep, and one of the keys has expired.
            (2050, &[(0, &["SET g short PXAT 1000000002060"])]),
            (2080, &[(0, &["SET g longer PXAT 1000000009000"]), (1, &["APPEND d more"])]),
            (
                3000,
                &[
                    (0, &["RENAME e a", "SET c again", "SET edge v PXAT 1000000004000"]),
                    (1, &["SET d gone PXAT 1000000003001"]),
                ],
            ),
            (4000, &[(0, &["SET e ~700e", "PERSIST b"]), (1, &["PEXPIREAT g 1000000008000", "APPEND edge w"])]),
            (5000, &[(0, &["DBSIZE", "DELRANGE b h"]), (2, &["SET a back PXAT 1000000009000", "SET a kept KEEPTTL"])]),
        ],
    )
}

fn sets(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = served(
        MAX,
        &["HSET h one 1 two ~600b", "SADD s m1 m2 m3 m4 m5", "HSET brief f v g w", "PEXPIREAT brief 1000000002500"],
    );
    script(
        explorer,
        start,
        &[
            (
                1000,
                &[
                    (0, &["HSET h one new three ~600c", "SADD s m6 m7", "PEXPIREAT h 1000000009000"]),
                    (1, &["HDEL h two", "SADD t m1 m2 m9"]),
                ],
            ),
            (
                2000,
                &[
                    (0, &["SMOVE s t m3", "SUNIONSTORE u s t", "PEXPIREAT h 1000000003500"]),
                    (2, &["SINTERSTORE s s t", "SET v text"]),
                ],
            ),
            (3000, &[(0, &["HSET brief again 1"]), (1, &["SREM u m1 m2", "SUNIONSTORE v u t"])]),
            (3050, &[(0, &["HSET fleeting f v", "PEXPIREAT fleeting 1000000003060"])]),
            // Expired and not swept.
            (3080, &[(0, &["HSET fleeting other w"])]),
            (4000, &[(0, &["HSET h fresh 1"]), (1, &["SDIFFSTORE u u s", "SADD w x"])]),
            (5000, &[(0, &["DEL h t"]), (1, &["SREM s m1 m2", "SADD s anew", "SREM w x"])]),
        ],
    )
}

fn lists(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = served(MAX, &["RPUSH l a b c d e f ~600g", "RPUSH m 1 2", "PEXPIREAT m 1000000003500"]);
    script(
        explorer,
        start,
        &[
            (
                1000,
                &[
                    (0, &["LPUSH l z y", "LSET l 1 ~600q"]),
                    (1, &["RPUSH n 1 2 3", "RPUSH r x 1 2 3 4 5", "RPUSH brief 1", "PEXPIREAT brief 1000000009000"]),
                ],
            ),
            (
                2000,
                &[
                    (0, &["LINSERT l BEFORE b x", "LINSERT l AFTER e w"]),
                    (1, &["LREM l 0 c", "LREM r 0 1", "LPOP brief"]),
                ],
            ),
            (3000, &[(0, &["LMOVE l n LEFT RIGHT", "RPOP l 2"]), (2, &["LTRIM n 1 2", "LMOVE l o LEFT LEFT"])]),
            (4000, &[(0, &["RPUSH m again"]), (1, &["LMOVE l l RIGHT LEFT", "LMOVE o l RIGHT RIGHT"])]),
            (5000, &[(0, &["LPOP l 100", "RPUSH l fresh"]), (1, &["DEL n", "PEXPIREAT l 1000000009000"])]),
        ],
    )
}

fn scores(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = served(MAX, &["ZADD z 1 a 2 b 3 c 4 d", "ZADD brief 1 a", "PEXPIREAT brief 1000000002500"]);
    script(
        explorer,
        start,
        &[
            (
                1000,
                &[
                    (0, &["ZADD z 5 a 7 e", "ZADD y 1 a -2 b", "PEXPIREAT z 1000000009000"]),
                    (1, &["ZREM z d", "ZINCRBY z 10 b"]),
                ],
            ),
            (2000, &[(0, &["ZPOPMIN z", "COPY z x"]), (2, &["ZUNIONSTORE y 2 y z", "ZADD brief 2 a 3 b"])]),
            (3000, &[(0, &["ZREMRANGEBYSCORE y 6 12", "ZADD brief 4 c"]), (1, &["RENAME x z", "SADD s a b"])]),
            (4000, &[(0, &["ZADD z 1 new 1 newer", "ZPOPMIN y"]), (1, &["ZREMRANGEBYSCORE brief -9 9"])]),
            (5000, &[(0, &["ZUNIONSTORE s 2 y z", "DEL y"]), (2, &["ZINCRBY z -20 b", "ZADD brief 1 again"])]),
        ],
    )
}

fn streams(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start =
        served(MAX, &["XADD x 1-1 f one", "XADD x 1-2 f two", "XADD brief 1-1 f v", "PEXPIREAT brief 1000000002500"]);
    script(
        explorer,
        start,
        &[
            (1000, &[(0, &["XADD x 2-0 f ~600c", "XADD x 2-1 f d"]), (1, &["XADD y 5-5 f v", "XDEL x 1-2"])]),
            (2000, &[(0, &["XTRIM x MAXLEN 2", "COPY x w"]), (2, &["XADD x 3-0 f e", "XDEL y 5-5"])]),
            (3000, &[(0, &["XADD brief 1-1 f again"]), (1, &["XADD y 5-6 f w", "PEXPIREAT x 1000000009000"])]),
            (4000, &[(0, &["XTRIM x MAXLEN 0", "RENAME w v"]), (1, &["XADD v 9-9 f x", "DEL brief"])]),
            (5000, &[(0, &["XADD x 4-0 f last", "SET y text"]), (2, &["XDEL v 2-0 2-1 9-9"])]),
        ],
    )
}

fn groups(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = served(MAX, &["XADD x 1-1 f one", "XADD x 1-2 f two", "XGROUP CREATE x g 0-0"]);
    script(
        explorer,
        start,
        &[
            (
                1000,
                &[
                    (0, &["XREADGROUP GROUP g c COUNT 1 STREAMS x >", "XADD x 2-0 f ~600c"]),
                    (1, &["XGROUP CREATE x h 1-1", "XREADGROUP GROUP h d STREAMS x >"]),
                ],
            ),
            (
                2000,
                &[
                    (0, &["XREADGROUP GROUP g d STREAMS x >", "XACK x g 1-1"]),
                    (2, &["XCLAIM x h e 0 1-2", "XDEL x 1-2"]),
                ],
            ),
            (
                3000,
                &[
                    (0, &["XAUTOCLAIM x g c 0 0-0", "COPY x y"]),
                    (1, &["XGROUP DELCONSUMER x h d", "XGROUP DESTROY y h"]),
                ],
            ),
            (
                4000,
                &[
                    (0, &["RENAME y z", "XADD z 5-5 f v", "XREADGROUP GROUP g c STREAMS z >"]),
                    (1, &["XTRIM x MAXLEN 1", "XACK x g 2-0"]),
                ],
            ),
            (
                5000,
                &[
                    (0, &["XGROUP DESTROY x g", "PEXPIREAT z 1000000005500"]),
                    (2, &["XGROUP CREATE w g 0-0 MKSTREAM", "XADD x 9-9 f v"]),
                ],
            ),
            (6000, &[(0, &["XADD z 1-1 f again", "DEL x"])]),
        ],
    )
}

fn waiting(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = served(MAX, &["RPUSH other x", "XGROUP CREATE x g 0-0 MKSTREAM"]);
    let run = |program: &mut Program<'_>| {
        // A run on what a crash has left waits, too.
        program.iteration(START + 500, &[(0, &["DEL q z s x", "XGROUP CREATE x g 0-0 MKSTREAM"])]);
        program.settle();
        program.wait(START + 1000, 1, "BLPOP q 0");
        program.wait(START + 1100, 2, "BZPOPMIN z 0");
        program.iteration_for(START + 2000, &[(0, &["RPUSH q v ~600w", "SET k 1"])], &[1]);
        program.settle();
        program.iteration_for(START + 3000, &[(0, &["ZADD z 2 a 1 b"]), (1, &["APPEND k 2"])], &[2]);
        program.settle();
        program.wait(START + 4000, 1, "BLMOVE s other LEFT RIGHT 0");
        program.iteration_for(START + 5000, &[(0, &["MULTI", "RPUSH s one", "SET k 3", "EXEC"])], &[1]);
        program.settle();
        program.wait(START + 6000, 1, "XREADGROUP GROUP g c BLOCK 0 STREAMS x >");
        program.wait(START + 6100, 2, "XREAD BLOCK 0 STREAMS x $");
        // Builds on what is not settled.
        program.iteration_for(START + 7000, &[(0, &["RPUSH s two", "XADD x 1-1 f v"])], &[1, 2]);
        program.settle();
        program.iteration(START + 8000, &[(1, &["XACK x g 1-1", "LPOP s"]), (2, &["RPUSH q again"])]);
        program.settle();
    };
    explore(explorer, start, run, true)
}

fn databases(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = served(
        MAX,
        &[
            "SET p plain",
            "HSET h one 1 two ~600b",
            "PEXPIREAT h 1000000009000",
            "RPUSH l a b c",
            "SELECT 1",
            "SET p other PXAT 1000000009000",
        ],
    );
    script(
        explorer,
        start,
        &[
            (
                1000,
                &[
                    (0, &["COPY h h DB 9", "MOVE l 1", "COPY p o"]),
                    (1, &["SELECT 1", "DBSIZE", "RENAME p q", "PEXPIREAT q 1000000003500", "SADD s m n"]),
                ],
            ),
            (
                2000,
                &[(0, &["COPY p p DB 1", "MOVE p 9", "RENAME o r"]), (1, &["COPY q q DB 0", "LPUSH l z", "MOVE s 0"])],
            ),
            (3000, &[(0, &["HSET h three 3"]), (2, &["SELECT 9", "RENAME h p", "HSET p three c"])]),
            (4000, &[(0, &["COPY h g REPLACE", "RENAME h g", "SET h back"]), (1, &["FLUSHDB", "SADD s again"])]),
            (5000, &[(0, &["COPY g s REPLACE", "DEL h", "SET plain v"]), (1, &["RPUSH l again"])]),
            (6000, &[(0, &["FLUSHALL", "HSET h last 1"])]),
        ],
    )
}

fn swaps(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // The old record goes before the new one turns out not to fit.
    const FULL: &str = "SETRANGE big 3500000 x";
    let start = served(
        MAX,
        &[
            "SET p plain",
            "SET big 0 PXAT 1000000009000",
            "HSET h one 1 two ~600b",
            "PEXPIREAT h 1000000003500",
            "SELECT 1",
            "SET p other PXAT 1000000009000",
            "RPUSH l a b",
        ],
    );
    let run = |program: &mut Program<'_>| {
        program.iteration(START + 1000, &[(0, &["SWAPDB 0 1", "SET q anew", "RPUSH l c"]), (1, &["DEL h"])]);
        program.settle();
        let left = program.iteration(START + 2000, &[(0, &["SWAPDB 9 1", "SET r moved"])]);
        // No reader learns of it before it is settled.
        let early = program.iteration(START + 2050, &[(1, &["GET p", "SELECT 9", "GET p"])]);
        let waits = left.iter().chain(&early).all(Vec::is_empty);
        assert!(waits || program.fences_settle, "{left:?} {early:?}");
        program.settle();
        program.settle();
        // A transaction that does not fit takes its exchange back.
        program.iteration(
            START + 3000,
            &[(0, &["SET stays 1", "MOVE l 1"]), (2, &["SELECT 9", "MULTI", "SWAPDB 0 9", "DEL p", FULL, "EXEC"])],
        );
        program.settle();
        program.iteration(START + 4000, &[(0, &["SADD s m", "SWAPDB 0 9"]), (2, &["SADD s n", "FLUSHDB", "SET s t"])]);
        program.settle();
        program.settle();
        program.iteration(START + 5000, &[(0, &["MULTI", "SWAPDB 1 0", "SET last 1", "EXEC"])]);
        program.settle();
    };
    explore(explorer, start, run, true)
}

fn transactions(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // The old record goes before the new one turns out not to fit.
    const FULL: &str = "SETRANGE big 3500000 x";
    let start = served(
        MAX,
        &["SET a 0", "HSET h f v", "RPUSH l x", "PEXPIREAT l 1000000005500", "SET big 0 PXAT 1000000009000"],
    );
    let run = |program: &mut Program<'_>| {
        program.iteration(
            START + 1000,
            &[
                (0, &["MULTI", "SET a 1 PXAT 1000000009000", "HSET h g w", "RPUSH l y", "EXEC"]),
                (1, &["SET b 2", "DBSIZE"]),
                (2, &["MULTI", "SADD s m"]),
            ],
        );
        program.iteration(
            START + 2000,
            &[(0, &["SET d 4"]), (2, &["HSET s wrong type", "RPUSH new z", "PEXPIREAT new 1000000005500", "EXEC"])],
        );
        // A transaction that does not fit is taken back by itself.
        let left = program.iteration(
            START + 3000,
            &[
                (0, &["SET stays 1", "RPUSH made 1"]),
                (1, &["MULTI", "RPUSH l never", "RPUSH other never", FULL, "EXEC"]),
                (2, &["SET f 6", "HSET made2 f v"]),
            ],
        );
        assert!(!left[0].iter().any(is_error) && left[1].last().is_some_and(is_error), "{left:?}");
        // A command that does not fit takes back those before it.
        let left = program.iteration(
            START + 4000,
            &[(0, &["SET lost 1", "SADD lost2 m"]), (1, &["RPUSH l lost", FULL]), (2, &["SET g 7", "SADD kept m"])],
        );
        assert!(left[..2].iter().flatten().all(is_error) && !left[2].iter().any(is_error), "{left:?}");
        program.careful = true;
        let left = program.iteration(
            START + 6000,
            &[
                (0, &["SET j 9", "RPUSH l z", "SADD kept2 m"]),
                (1, &[FULL, "MULTI", "DEL a", "HSET h k v", "EXEC"]),
                (2, &["DEL b", "SET new back"]),
            ],
        );
        assert!(
            !left[0].iter().any(is_error) && is_error(&left[1][0]) && matches!(left[1][4], Reply::List(_)),
            "{left:?}"
        );
        program.iteration(START + 7000, &[(0, &["SADD s n"]), (1, &["MULTI", "LPUSH l a", FULL, "EXEC"])]);
    };
    explore(explorer, start, run, false)
}

fn scripts(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // The old record goes before the new one turns out not to fit.
    const FULL: &str = "FCALL each 0 SET,never,1 SETRANGE,big,3500000,x";
    let start = served(
        MAX,
        &["SET a 0", "RPUSH l x", "SET big 0 PXAT 1000000009000", "FUNCTION LOAD @each", "FUNCTION LOAD @gone"],
    );
    let run = |program: &mut Program<'_>| {
        program.iteration(
            START + 1000,
            &[
                (0, &["FCALL each 0 SET,a,1 RPUSH,l,y HSET,h,f,v", "FUNCTION LOAD @other"]),
                (1, &["FUNCTION DELETE gone", "SET b 2"]),
            ],
        );
        program.settle();
        // A call that builds on a library that is not settled.
        program.iteration(START + 2000, &[(0, &["FUNCTION LOAD REPLACE @late"]), (1, &["SET c 3"])]);
        program.iteration(START + 2050, &[(2, &["FCALL late 0 SADD,s,m,n RPUSH,l,z"])]);
        program.settle();
        program.settle();
        // A call that does not fit is taken back by itself, and a transaction with its library.
        program.iteration(
            START + 3000,
            &[(0, &["SET stays 1"]), (1, &[FULL]), (2, &["MULTI", "FUNCTION LOAD @never", "DEL l", FULL, "EXEC"])],
        );
        program.settle();
        let found = program.look(START + 3050, 2, "FCALL never 0 SET,x,1");
        assert!(found.iter().all(is_error), "its library was taken back: {found:?}");
        program.iteration(START + 4000, &[(0, &["FCALL other 0 SET,d,4 SADD,s,o"]), (2, &["FUNCTION DELETE other"])]);
        program.settle();
        program.iteration(START + 5000, &[(1, &["MULTI", "FUNCTION FLUSH", "FUNCTION LOAD @each", "SET e 5", "EXEC"])]);
        program.settle();
    };
    explore(explorer, start, run, true)
}

fn evictions(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = served(MAX, &["SET before 1"]);
    let run = |program: &mut Program<'_>| {
        // A run on what a crash has left begins with the same keys: 3137 bytes.
        program.iteration(
            START + 500,
            &[
                (
                    0,
                    &[
                        "FLUSHALL",
                        "SET a ~700a PXAT 1000000030000",
                        "SET b ~700b PXAT 1000000040000",
                        "RPUSH l x y ~600z",
                        "PEXPIREAT l 1000000020000",
                        "SET p plain",
                    ],
                ),
                (2, &["SELECT 9", "HSET h f ~700v", "PEXPIREAT h 1000000025000"]),
            ],
        );
        program.look(START + 600, 0, "CONFIG SET maxmemory 3300 maxmemory-policy volatile-ttl");
        // The second command finds too much; the list goes.
        program.iteration_evicting(
            START + 1000,
            &[(0, &["SET n1 ~700n", "SET n2 ~20n"]), (1, &["APPEND p more"])],
            &[(0, "l")],
        );
        // A hash of another database.
        program.iteration_evicting(START + 2000, &[(0, &["RPUSH m ~700m", "SADD s m"])], &[(9, "h")]);
        // A transaction makes room once, before it; the next command makes room for two.
        program.iteration_evicting(
            START + 3000,
            &[(0, &["MULTI", "SET big ~900q", "SET t 1", "EXEC"]), (1, &["SET u 1"])],
            &[(0, "a"), (0, "b")],
        );
        // No key with a deadline is left.
        let left = program.iteration(START + 4000, &[(0, &["SET v ~900v", "SET w 1"]), (1, &["DEL big", "SET x 1"])]);
        assert!(!is_error(&left[0][0]) && is_error(&left[0][1]) && !left[1].iter().any(is_error), "{left:?}");
        program.look(START + 4100, 0, "CONFIG SET maxmemory 0 maxmemory-policy noeviction");
    };
    explore(explorer, start, run, false)
}

fn pending(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start = served(MAX, &["SET a 0", "RPUSH k old older", "PEXPIREAT k 1000000001500", "HSET h f v"]);
    let run = |program: &mut Program<'_>| {
        let left = program.iteration(START + 1000, &[(0, &["DEL k", "RPUSH k new"]), (1, &["APPEND a 1"])]);
        assert!(left.iter().all(Vec::is_empty), "nothing is settled: {left:?}");
        // Builds on what is not settled.
        program.iteration(START + 2000, &[(2, &["RPUSH k newer", "APPEND a 2"])]);
        program.settle();
        program.iteration(START + 3000, &[(0, &["HSET h g w"]), (1, &["MULTI", "APPEND a 3", "DEL k", "EXEC"])]);
        program.settle();
        program.settle();
        // One alone.
        program.iteration(START + 4000, &[(2, &["PEXPIREAT h 1000000004500", "RPUSH k again"])]);
        program.iteration(START + 5000, &[(0, &["SET h text"])]);
        program.settle();
        program.settle();
        // Until the removal is settled, another client reads the state before it. A fence that
        // settles does so with the commit.
        program.iteration(START + 6000, &[(0, &["FLUSHALL"])]);
        let found = program.look(START + 6050, 1, "EXISTS k");
        assert_eq!(found, [Reply::Text(if program.fences_settle { "0" } else { "1" }.into())]);
        program.settle();
    };
    explore(explorer, start, run, true)
}
