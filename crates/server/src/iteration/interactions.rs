//! Commands that meet in one iteration, or in one EXEC: waiting, tracking, events, MONITOR, rights
//! and pauses of clients, expired keys, and what is taken back. `rights` has key rights by the
//! words of requests, `replies` the output limit, `words` option words and numbers at their bounds,
//! `lost` the replies of iterations that are taken back, `pauses` pauses of several reasons, and
//! `times` deadlines and times of deliveries, `settings` CONFIG REWRITE and CLIENT REPLY, `limits`
//! idle time and what waits for a client.

mod data_bound;
mod durability;
mod limits;
mod lost;
mod pauses;
mod pending;
mod replies;
mod rights;
mod settings;
mod times;
mod versions;
mod words;

use crate::{Options, ServerScript};
use everbyte_kv::raw::Raw as _;
use everbyte_kv::{Clock, Kv, ManualClock};
use everbyte_media::{BackendChoice, Durability};
use everbyte_store::{CreateOptions, Store};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 at the first turn.
const START: u64 = 1_000_000_000_000;

/// A command that does not fit the store of [`Turns::nearly_full`]: its old record goes first.
pub(super) const FULL: &str = "SETRANGE big 3500000 x";

/// A server and its clients, in iterations by hand.
pub(super) struct Turns {
    server: ServerScript,
    kv: Kv,
    clock: ManualClock,
    _folder: tempfile::TempDir,
}

fn texts(replies: &[Vec<u8>]) -> Vec<String> {
    replies.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
}

impl Turns {
    /// Three clients of an empty store of 4 MiB.
    pub(super) fn new() -> Turns {
        Turns::with(Options::default())
    }

    /// The same, and iterations stay pending until they are settled.
    pub(super) fn settling_later() -> Turns {
        Turns::made(true, Options::default())
    }

    /// The same, with options.
    pub(super) fn with(options: Options) -> Turns {
        Turns::made(false, options)
    }

    fn made(settles_later: bool, options: Options) -> Turns {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let create = CreateOptions { max: 4 << 20, ..CreateOptions::default() };
        Turns::opened(folder, &create, settles_later, options)
    }

    fn opened(folder: tempfile::TempDir, create: &CreateOptions, settles_later: bool, options: Options) -> Turns {
        let kv = Kv::open_or_create(&Store::create(&folder.path().join("store"), create).unwrap(), "kv").unwrap();
        let clock = ManualClock::default();
        let options = Options { clock: Arc::new(clock.clone()), ..options };
        let server = ServerScript::open(kv.clone(), 3, settles_later, options).unwrap();
        Turns { server, kv, clock, _folder: folder }
    }

    /// The same on a disk that is synced when a client asks for it.
    fn on_disk() -> Turns {
        let folder = tempfile::tempdir().unwrap();
        let durability = Durability::Interval(Duration::from_secs(3600));
        let media = everbyte_media::Options { backend: BackendChoice::File, durability, ..Default::default() };
        let create = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
        Turns::opened(folder, &create, false, Options::default())
    }

    /// The same, half full.
    pub(super) fn nearly_full() -> Turns {
        let mut turns = Turns::new();
        turns.ask(0, &["SETRANGE fill 2500000 x", "SET big 0 PXAT 9000000000000"]);
        turns
    }

    /// The replies to lines of clients in one iteration, so many milliseconds behind the start.
    pub(super) fn at(&mut self, time: u64, lines: &[(usize, &[&str])]) -> Vec<String> {
        self.clock.set(UNIX_EPOCH + Duration::from_millis(START + time));
        let bytes = |lines: &[&str]| lines.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).collect();
        let requests: Vec<(usize, Vec<u8>)> = lines.iter().map(|(client, lines)| (*client, bytes(lines))).collect();
        texts(&self.server.iteration(&requests).unwrap())
    }

    /// The replies that leave as the oldest pending iteration is settled.
    pub(super) fn settle(&mut self) -> Vec<String> {
        texts(&self.server.settle().unwrap())
    }

    /// Syncs of the disk so far.
    fn syncs(&self) -> u64 {
        self.kv.store().media().counts().syncs
    }

    /// The replies to one client's lines.
    pub(super) fn ask(&mut self, client: usize, lines: &[&str]) -> String {
        self.at(0, &[(client, lines)]).swap_remove(client)
    }
}

/// The null of CLIENT UNBLOCK leaves although its EXEC is refused: the client waits no more.
#[test]
fn a_client_that_a_refused_transaction_unblocks_gets_its_null() {
    let mut turns = Turns::nearly_full();
    assert_eq!(turns.ask(0, &["BLPOP q 0"]), "");
    let replies = turns.at(0, &[(1, &["MULTI", "CLIENT UNBLOCK 1", FULL, "EXEC"])]);
    assert!(replies[1].contains("-EXECABORT"), "{replies:?}");
    assert_eq!(replies[0], "*-1\r\n");
    assert_eq!(turns.ask(0, &["PING"]), "+PONG\r\n");
}

/// TRACK-2: a client that leaves out its own changes is told of one by another client, before or
/// behind its own in the same iteration.
#[test]
fn a_change_by_another_client_is_told_beside_an_own_one() {
    type Lines = (usize, &'static [&'static str]);
    let mut turns = Turns::new();
    turns.ask(0, &["HELLO 3", "CLIENT TRACKING ON BCAST NOLOOP"]);
    let own = turns.ask(0, &["SET k 1"]);
    assert!(!own.contains("invalidate"), "{own}");
    let (own, other): (Lines, Lines) = ((0, &["SET k 1"]), (1, &["SET k 2"]));
    for order in [[own, other], [other, own]] {
        let replies = turns.at(0, &order);
        assert_eq!(replies[0].matches("invalidate").count(), 1, "{order:?}: {replies:?}");
    }
}

/// TRACK-2: tracking that begins in a transaction follows the rest of it.
#[test]
fn tracking_follows_changes_behind_it_in_its_transaction() {
    let mut turns = Turns::new();
    turns.ask(0, &["HELLO 3"]);
    let told = turns.ask(0, &["MULTI", "CLIENT TRACKING ON", "GET k", "SET k v", "EXEC"]);
    assert!(told.ends_with("$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"), "{told}");
}

/// The event of an expired key comes before that of the command that met it.
#[test]
fn a_key_expires_before_it_is_made_again() {
    for transaction in [false, true] {
        let mut turns = Turns::new();
        turns.ask(0, &["CONFIG SET notify-keyspace-events KEA", &format!("SET k v PXAT {}", START + 20)]);
        turns.ask(1, &["SUBSCRIBE __keyspace@0__:k"]);
        let lines: &[&str] = if transaction { &["MULTI", "SET k w", "EXEC"] } else { &["SET k w"] };
        // Before the next sweep.
        let heard = turns.at(50, &[(0, lines)]).swap_remove(1);
        let place = |word: &str| heard.find(&format!("\r\n{word}\r\n")).unwrap_or_else(|| panic!("{heard}"));
        assert!(place("expired") < place("set"), "{heard}");
    }
}

/// A client that reads that its MONITOR was not done is shown nothing.
#[test]
fn a_monitor_that_is_taken_back_is_none() {
    let mut turns = Turns::nearly_full();
    let replies = turns.at(0, &[(2, &["SET before 1"]), (0, &["MONITOR"]), (1, &[FULL])]);
    assert!(replies[0].starts_with("-ERR store: nothing was done"), "{replies:?}");
    assert_eq!(turns.at(0, &[(1, &["SET k 1"])])[0], "");
}

/// A part of an EXEC that the user may no longer give is as one that was not sent.
#[test]
fn a_part_without_rights_is_not_executed() {
    let mut turns = Turns::new();
    turns.ask(1, &["ACL SETUSER u on nopass ~* +@all"]);
    turns.ask(0, &["AUTH u p", "HELLO 3", "CLIENT TRACKING ON", "MULTI", "GET secret"]);
    turns.ask(1, &["ACL SETUSER u resetkeys ~a*"]);
    turns.ask(2, &["MONITOR"]);
    let replies = turns.at(0, &[(0, &["EXEC"])]);
    assert!(replies[0].contains("NOPERM") && !replies[2].contains("secret"), "{replies:?}");
    let replies = turns.at(0, &[(1, &["SET secret x"])]);
    assert_eq!(replies[0], "", "it has read nothing");
}

/// A message that a transaction publishes waits for the end of a pause, as one outside does.
#[test]
fn a_pause_of_writers_holds_messages_of_transactions() {
    let mut turns = Turns::new();
    assert_eq!(turns.ask(0, &["MULTI", "PUBLISH c m"]), "+OK\r\n+QUEUED\r\n");
    turns.ask(1, &["CLIENT PAUSE 100000 WRITE"]);
    assert_eq!(turns.ask(0, &["EXEC"]), "");
    let mut left = turns.at(0, &[(1, &["CLIENT UNPAUSE"])]).swap_remove(0);
    left += &turns.at(0, &[])[0];
    assert_eq!(left, "*1\r\n:0\r\n");
}

/// A client that leaves while its command waits for the end of a pause is counted no more.
#[test]
fn a_client_that_leaves_in_a_pause_is_no_longer_blocked() {
    let mut turns = Turns::new();
    turns.ask(1, &["CLIENT PAUSE 100000 WRITE"]);
    assert_eq!(turns.ask(0, &["SET k v"]), "");
    let blocked = |turns: &mut Turns, count: u32| {
        let told = turns.ask(1, &["INFO clients"]);
        assert!(told.contains(&format!("blocked_clients:{count}\r\n")), "{told}");
    };
    blocked(&mut turns, 1);
    turns.ask(2, &["CLIENT KILL ID 1"]);
    blocked(&mut turns, 0);
    turns.ask(1, &["CLIENT UNPAUSE"]);
    assert_eq!(turns.ask(2, &["SET k v", "GET k"]), "+OK\r\n$1\r\nv\r\n");
}

/// A client that waits for entries of an expired stream hears of it as databases are exchanged.
#[test]
fn an_exchange_ends_those_who_wait_for_an_expired_stream() {
    let mut turns = Turns::new();
    turns.ask(1, &["XGROUP CREATE x g $ MKSTREAM", &format!("PEXPIREAT x {}", START + 20)]);
    assert_eq!(turns.ask(0, &["XREADGROUP GROUP g c BLOCK 0 STREAMS x >"]), "");
    // Before the next sweep.
    let replies = turns.at(50, &[(1, &["SWAPDB 0 1"])]);
    assert!(replies[0].starts_with("-UNBLOCKED"), "{replies:?}");
}

/// Many keys that expire at once go in several iterations, and none is seen meanwhile.
#[test]
fn each_iteration_removes_more_expired_keys() {
    let mut turns = Turns::new();
    for key in 0..1500 {
        turns.ask(0, &[&format!("SET k{key} v PXAT {}", START + 100)]);
    }
    assert_eq!(turns.at(101, &[(0, &["KEYS *"])])[0], "*0\r\n");
    let mut count = || turns.at(101, &[(0, &["DBSIZE"])])[0].trim().trim_start_matches(':').parse::<u64>().unwrap();
    let mut left = count();
    assert!(left > 0, "one iteration removes some of them");
    while left > 0 {
        let now = count();
        assert!(now < left, "each iteration removes more: {now} of {left}");
        left = now;
    }
}

/// A wait that is taken back with its iteration takes no element from others.
#[test]
fn a_wait_that_is_taken_back_is_none() {
    let mut turns = Turns::nearly_full();
    let replies = turns.at(0, &[(2, &["SET before 1"]), (0, &["BLPOP q 0"]), (1, &[FULL])]);
    assert!(replies[0].starts_with("-ERR store: nothing was done"), "{replies:?}");
    assert_eq!(turns.at(0, &[(1, &["LPUSH q x"])])[0], "");
    assert_eq!(turns.ask(1, &["LLEN q"]), ":1\r\n");
}

/// A client that reads that its command was not queued cannot execute the others.
#[test]
fn a_queued_command_that_is_taken_back_spoils_its_transaction() {
    let mut turns = Turns::nearly_full();
    turns.ask(0, &["MULTI"]);
    let replies = turns.at(0, &[(2, &["SET before 1"]), (0, &["SET a 1"]), (1, &[FULL])]);
    assert!(replies[0].starts_with("-ERR store: nothing was done"), "{replies:?}");
    assert!(turns.ask(0, &["EXEC"]).starts_with("-EXECABORT"));
    assert_eq!(turns.ask(0, &["GET a"]), "$-1\r\n");
}

/// A client that gets an element hands it on to the one that waits for its target.
#[test]
fn a_move_that_waited_wakes_the_next_one() {
    let mut turns = Turns::new();
    turns.ask(0, &["BLPOP b 0"]);
    turns.ask(1, &["BLMOVE a b LEFT LEFT 0"]);
    let replies = turns.at(0, &[(2, &["LPUSH a x"])]);
    assert!(replies[0].ends_with("$1\r\nb\r\n$1\r\nx\r\n"), "{replies:?}");
    assert_eq!(turns.ask(2, &["EXISTS a b"]), ":0\r\n");
}

/// A stream that goes with its database ends the waits of its groups.
#[test]
fn a_flush_ends_those_who_wait_in_groups() {
    let mut turns = Turns::new();
    turns.ask(0, &["XGROUP CREATE s g $ MKSTREAM", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"]);
    let replies = turns.at(0, &[(1, &["FLUSHDB"])]);
    assert!(replies[0].starts_with('-'), "{replies:?}");
}

/// A clock that is 900 us ahead of another.
struct Ahead(ManualClock);

impl Clock for Ahead {
    fn now(&self) -> SystemTime {
        self.0.now() + Duration::from_micros(900)
    }
}

/// A wait is as long as its client asked for, or longer, wherever in a millisecond it begins.
#[test]
fn no_wait_is_too_short() {
    let mut turns = Turns::new();
    turns.server = ServerScript::open(
        turns.kv.clone(),
        3,
        false,
        Options { clock: Arc::new(Ahead(turns.clock.clone())), ..Options::default() },
    )
    .unwrap();
    assert_eq!(turns.at(0, &[(0, &["BLPOP q 0.005"])])[0], "");
    assert_eq!(turns.at(5, &[])[0], "", "its whole time may not be over yet");
    assert_eq!(turns.at(6, &[])[0], "*-1\r\n");
}

/// A key that SWAPDB brings to a database is a change for a client that watches it there.
#[test]
fn a_watched_key_that_an_exchange_brings_has_changed() {
    let mut turns = Turns::new();
    turns.ask(0, &["SET k 1"]);
    turns.ask(1, &["SELECT 1", "WATCH k"]);
    turns.ask(2, &["WATCH k"]);
    turns.ask(0, &["SWAPDB 0 1"]);
    for client in [1, 2] {
        assert!(turns.ask(client, &["MULTI", "PING", "EXEC"]).ends_with("*-1\r\n"), "client {client}");
    }
}

/// CLIENT CACHING YES counts for the whole transaction behind it, and no longer.
#[test]
fn an_opt_in_counts_for_a_whole_transaction() {
    let mut turns = Turns::new();
    turns.ask(0, &["HELLO 3", "CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES", "MULTI", "GET a", "GET b", "EXEC"]);
    turns.ask(0, &["GET c"]);
    for (key, told) in [("a", true), ("b", true), ("c", false)] {
        let replies = turns.at(0, &[(1, &[&format!("SET {key} 1")])]);
        assert_eq!(replies[0].contains("invalidate"), told, "{key}: {replies:?}");
    }
}
