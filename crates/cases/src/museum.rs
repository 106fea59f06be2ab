//! The museum: seeded bugs of every crate, and the case that must find each.
//!
//! Each exhibit is a plausible mistake: a line of a crate is left out, moved or doubled while the
//! bug's switch is on (`everbyte_media::seeded`). A museum visit explores the named case with the
//! bug on, and the explorer must find a failing image. The tests of the cases show that the same
//! case passes with the bug off.

use crate::{Report, Settings, find};
use everbyte_media::museum::with;
use everbyte_sim::{Explorer, Image, Profile};
use serde::Serialize;

/// One seeded bug.
#[derive(Clone, Copy, Debug)]
pub struct Exhibit {
    /// The name of its switch.
    pub name: &'static str,
    /// The crate that it breaks.
    pub crate_name: &'static str,
    /// The effect of the bug, and the damage that follows.
    pub story: &'static str,
    /// The case that must find it.
    pub case: &'static str,
}

const fn exhibit(name: &'static str, crate_name: &'static str, case: &'static str, story: &'static str) -> Exhibit {
    Exhibit { name, crate_name, story, case }
}

/// All exhibits, layer by layer.
pub const EXHIBITS: &[Exhibit] = &[
    exhibit(
        "media-flush-short",
        "media",
        "media-publish",
        "a flush stops after 64 bytes and leaves the record's other lines in the cache",
    ),
    exhibit(
        "media-barrier-is-a-fence",
        "media",
        "media-publish",
        "a fence taken for a barrier: ordered, acknowledged, and gone on media where only a barrier settles",
    ),
    exhibit(
        "media-barrier-unsynced",
        "media",
        "media-power-cut",
        "a barrier on `file` writes the log and does not sync it",
    ),
    exhibit(
        "media-chunk-free-unwritten",
        "media",
        "media-map",
        "a freed chunk's slot still says that the place is its own, and the place is given to another object: two share it",
    ),
    exhibit(
        "media-torn-record",
        "media",
        "media-power-cut",
        "replay believes a record whose checksum does not fit: torn bytes reach their places",
    ),
    exhibit(
        "media-words-lost",
        "media",
        "media-power-cut",
        "a flush of one word takes a line that the record has other words of for known, and the word is not in the log",
    ),
    exhibit(
        "media-pages-unsynced",
        "media",
        "media-power-cut",
        "a checkpoint moves the head before the pages it copied are on the medium",
    ),
    exhibit(
        "media-adopt-nothing",
        "media",
        "log-journal-ops",
        "recovery acts on a commit word that a dead process left in the cache, and the word is lost where its effects are not",
    ),
    exhibit(
        "log-journal-no-fence",
        "log",
        "log-journal",
        "data changes before the old bytes are in the journal: nothing to undo with",
    ),
    exhibit(
        "log-journal-no-checksum",
        "log",
        "log-journal",
        "an entry with the right generation counts though its bytes are torn: undo restores garbage",
    ),
    exhibit(
        "log-journal-undo-forward",
        "log",
        "log-journal-twice",
        "a range logged twice is undone oldest first, so the middle value stays",
    ),
    exhibit(
        "log-journal-finish-unfenced",
        "log",
        "log-journal",
        "recovery retires the lane before the undone bytes are ordered: a second crash finds neither",
    ),
    exhibit(
        "log-ring-no-fence",
        "log",
        "log-ring-lazy",
        "the word log's flush does not fence: later stores survive without the record",
    ),
    exhibit(
        "log-ring-tail-unfenced",
        "log",
        "log-ring-base",
        "tail word and record share one fence: the tail may point past a torn record",
    ),
    exhibit(
        "log-ring-no-neutralise",
        "log",
        "log-ring-torn",
        "words of a torn record keep the sense of the pass to come and join a later record",
    ),
    exhibit(
        "space-zero-unflushed",
        "space",
        "store-growth",
        "a cluster is zeroed and not flushed before it is handed out again: its old bytes show after a crash",
    ),
    exhibit(
        "space-punch-early",
        "space",
        "store-growth",
        "a hole is punched before the release is settled: after a crash the object has the cluster again, with zeros in it",
    ),
    exhibit(
        "space-kept-dirty",
        "space",
        "store-owners-kept",
        "a released cluster that is kept counts as zeroed and is not: the next object reads the last one's bytes",
    ),
    exhibit(
        "space-keep-unfenced",
        "space",
        "store-owners-kept",
        "a released cluster is zeroed before its release is ordered: after a crash its object still has it, and finds zeros",
    ),
    exhibit(
        "space-wanted-had",
        "space",
        "store-owners-ahead",
        "a cluster is zeroed in advance although an object has it by now: stored bytes become zeros",
    ),
    exhibit(
        "store-state-draft",
        "store",
        "store-objects",
        "a value overwritten between fences: the state word is `free` for a moment, and that moment may survive",
    ),
    exhibit(
        "store-publish-early",
        "store",
        "store-objects",
        "the name is published before the bytes of `init` are ordered: publish and fence are swapped",
    ),
    exhibit(
        "store-fence-for-barrier",
        "store",
        "store-objects",
        "create returns after a fence: on `file` the acknowledged object may vanish",
    ),
    exhibit(
        "store-reach-unordered",
        "store",
        "store-growth",
        "a cluster's bit may survive without the word by which recovery finds it: the cluster leaks",
    ),
    exhibit(
        "store-bit-late",
        "store",
        "store-growth",
        "the word that says a cluster is backed is stored before the cluster's bit",
    ),
    exhibit(
        "store-superblocks-together",
        "store",
        "store-raise",
        "both copies of the superblock are pending at once: neither may be whole",
    ),
    exhibit(
        "store-superblocks-fenced",
        "store",
        "store-rebase",
        "a store is said to have a new identity after a fence: on `file` a crash may leave it with the identity of its original",
    ),
    exhibit(
        "store-clone-named-early",
        "store",
        "store-clone",
        "a clone gets its name before its identity: after a crash it has its name and the identity of the original",
    ),
    exhibit(
        "names-swing-unordered",
        "store",
        "store-names-burst",
        "the word that leads to a new node is stored before the node is ordered: all names below are gone",
    ),
    exhibit(
        "store-rename-unsettled",
        "store",
        "store-names-rename",
        "a rename returns without a barrier: on `file` the acknowledged name may vanish",
    ),
    exhibit(
        "store-backing-unnamed",
        "store",
        "store-cold-limit",
        "a backing file bears a pair before the cold table does: after a crash the object can have no limit at that place",
    ),
    exhibit(
        "store-limit-unsettled",
        "store",
        "store-quotas",
        "a quota is set without a barrier: on `file` the acknowledged one may vanish",
    ),
    exhibit(
        "store-cold-unsynced",
        "store",
        "store-cold",
        "the table says that a cluster is cold before the backing file is synced: its bytes are lost",
    ),
    exhibit(
        "store-cold-frame-early",
        "store",
        "store-cold",
        "the memory of a cluster becomes a hole before the table says that it is cold: it reads as zeros",
    ),
    exhibit(
        "store-slot-early",
        "store",
        "store-cold",
        "a slot is given out again before the table says that its cluster is back: the old word leads to other bytes",
    ),
    exhibit(
        "store-access-unordered",
        "store",
        "store-names-rename",
        "the word that says which rights count is stored before they are ordered: no opening can read the record",
    ),
    exhibit(
        "names-doubt-unordered",
        "store",
        "store-names-burst",
        "blocks are allocated before the intent list that names them is ordered: they leak",
    ),
    exhibit(
        "heap-slot-unfenced",
        "heap",
        "heap-small",
        "the bit changes before the slot that explains it is ordered: a block without an owner",
    ),
    exhibit(
        "heap-bits-not-flushed",
        "heap",
        "heap-small",
        "a block's bit is stored and not flushed: its owner's word survives alone",
    ),
    exhibit("heap-fill-unfenced", "heap", "heap-small", "a block is published with its content still pending"),
    exhibit(
        "heap-released-handed-out",
        "heap",
        "heap-release",
        "a cluster that was given back is handed out and not backed again: its bytes lie in a hole",
    ),
    exhibit(
        "heap-tail-kept",
        "heap",
        "heap-pages",
        "a freed run leaves its length behind, which reads as a bitmap when its cluster is split",
    ),
    exhibit("heap-run-not-flushed", "heap", "heap-pages", "the kind of a cluster is stored and not flushed"),
    exhibit(
        "heap-end-before-tables",
        "heap",
        "heap-zones",
        "the heap's end moves before the tables of the new clusters are ordered",
    ),
    exhibit("tx-note-unfenced", "tx", "tx-words", "data changes in place before the old bytes are ordered"),
    exhibit(
        "tx-answer-unsettled",
        "tx",
        "tx-update",
        "a transaction returns after a fence: on `file` a crash undoes it, although it was acknowledged",
    ),
    exhibit(
        "tx-data-not-flushed",
        "tx",
        "tx-words",
        "the lane is retired with the transaction's data still in the cache",
    ),
    exhibit(
        "tx-new-not-flushed",
        "tx",
        "tx-blocks",
        "new memory is committed without being flushed: its name survives, its content does not",
    ),
    exhibit(
        "redo-stored-early",
        "tx",
        "tx-redo-words",
        "a transaction stores in place before its record is ordered: a crash leaves half of it and no record",
    ),
    exhibit("redo-not-flushed", "tx", "tx-redo-words", "a record is truncated with its stores still in the cache"),
    exhibit(
        "redo-floor-forgotten",
        "tx",
        "tx-redo-logs",
        "one log is truncated and another not, and no floor excludes its older records: they are stored over newer ones",
    ),
    exhibit(
        "redo-replay-unordered",
        "tx",
        "tx-redo-logs",
        "recovery stores log by log instead of in the order of timestamps",
    ),
    exhibit(
        "redo-run-cut-short",
        "tx",
        "tx-redo-words",
        "recovery stores the first of several adjacent words that a record gives one place",
    ),
    exhibit(
        "hkv-note-unfenced",
        "hkv",
        "hkv-hash",
        "words change before their record is ordered: after a crash no recovery finishes the change",
    ),
    exhibit(
        "hkv-note-believed",
        "hkv",
        "hkv-tree",
        "a log record is believed though neither it nor its pair is whole: a key leads to garbage",
    ),
    exhibit(
        "hkv-note-alone",
        "hkv",
        "hkv-tree",
        "a log record takes the place of the one before, whose stores are not ordered: a crash leaves a pair in part",
    ),
    exhibit(
        "hkv-notes-together",
        "hkv",
        "hkv-tree-splits",
        "recovery redoes two log records under one fence: the newer one changes bytes that the older one's checksum covers",
    ),
    exhibit(
        "hkv-half-unflushed",
        "hkv",
        "hkv-tree-splits",
        "half of a node goes to a new one that is not flushed before the log record that makes it count",
    ),
    exhibit(
        "hkv-joined-unflushed",
        "hkv",
        "hkv-tree-joins",
        "slots of one node go to another, and are not flushed before the log record that makes them count",
    ),
    exhibit(
        "hkv-gather-unfenced",
        "hkv",
        "hkv-hash-chains",
        "pairs of a second bucket are stored in the first, and the link to the second is cleared before they are ordered",
    ),
    exhibit(
        "hkv-group-unflushed",
        "hkv",
        "hkv-hash-chains",
        "a group of buckets is not flushed, and the log record that makes it count does not hold its content",
    ),
    exhibit(
        "hkv-note-retired-early",
        "hkv",
        "hkv-tree-splits",
        "a log record is retired for a transaction before its stores are ordered: an acknowledged pair is lost",
    ),
    exhibit("hkv-answer-unsettled", "hkv", "hkv-hash", "an insertion is acknowledged when it is ordered, not settled"),
    exhibit(
        "hkv-bucket-unflushed",
        "hkv",
        "hkv-hash-segments",
        "the new bucket of a split is neither logged nor flushed, and the count that makes it valid is",
    ),
    exhibit(
        "hkv-tree-child-unnoted",
        "hkv",
        "hkv-tree-rebuilds",
        "half of a split node takes its place and is not logged: after an undo the parent has lost the other half",
    ),
    exhibit(
        "fs-single-unfenced",
        "fs",
        "fs-write",
        "the one word of a change is stored before the new page that it leads to is ordered",
    ),
    exhibit(
        "fs-change-half-logged",
        "fs",
        "fs-names",
        "the first word of a change has no undo record: a crash in the middle keeps it",
    ),
    exhibit(
        "fs-change-unfenced",
        "fs",
        "fs-rename",
        "the records of a change are retired before its words are ordered: an acknowledged rename is there in part",
    ),
    exhibit("fs-change-unflushed", "fs", "fs-names", "the last words of a change are not flushed"),
    exhibit(
        "fs-group-unfenced",
        "fs",
        "fs-grow",
        "a group of inodes is published before its zeros are ordered: it holds files that were never made",
    ),
    exhibit("fs-chain-unfenced", "fs", "fs-grow", "a page of extents is published before its zeros are ordered"),
    exhibit(
        "fs-extent-unflushed",
        "fs",
        "fs-write",
        "the slots behind the end of a file are not flushed before the size that covers them",
    ),
    exhibit(
        "fs-entry-unflushed",
        "fs",
        "fs-names",
        "the bytes of a name are not flushed before the word that publishes them",
    ),
    exhibit(
        "fs-page-unfenced",
        "fs",
        "fs-grow",
        "a directory counts a page whose zeros and whose slot are not ordered",
    ),
    exhibit(
        "fs-size-unfenced",
        "fs",
        "fs-write",
        "the size of a file is stored before the bytes that it covers are ordered",
    ),
    exhibit(
        "fs-inline-unflushed",
        "fs",
        "fs-write",
        "bytes behind the end of a small file are not flushed before its size",
    ),
    exhibit("fs-inline-moved-unflushed", "fs", "fs-write", "a small file moves to a page that is not flushed"),
    exhibit("fs-append-unflushed", "fs", "fs-write", "bytes behind the end of a page are not flushed before the size"),
    exhibit(
        "fs-append-over-hole",
        "fs",
        "fs-sequences",
        "a hole in the last page gets a page whose bytes are not ordered",
    ),
    exhibit(
        "fs-gap-unflushed",
        "fs",
        "fs-resize",
        "the gap between the end and a write is not flushed: old bytes come back",
    ),
    exhibit(
        "fs-data-unflushed",
        "fs",
        "fs-write",
        "whole pages of a write are not flushed before the slot that leads to them",
    ),
    exhibit(
        "fs-edge-unflushed",
        "fs",
        "fs-write",
        "the page at the edge of a write is not flushed before the slot that leads to it",
    ),
    exhibit(
        "fs-tail-unflushed",
        "fs",
        "fs-resize",
        "the bytes behind the end are not zeroed in time when the file grows: old bytes come back",
    ),
    exhibit(
        "fs-cut-unfenced",
        "fs",
        "fs-resize",
        "pages have a new use before the slots that lead to them are cleared",
    ),
    exhibit("fs-punch-unflushed", "fs", "fs-holes", "the page at the edge of a hole is not flushed"),
    exhibit("fs-target-unflushed", "fs", "fs-names", "the long target of a symbolic link is not flushed"),
    exhibit("fs-inode-unflushed", "fs", "fs-names", "the inode of a new file is not flushed before it is live"),
    exhibit(
        "fs-trim-unflushed",
        "fs",
        "fs-trim",
        "recovery clears slots behind the end of a file and does not flush them",
    ),
    exhibit(
        "fs-reflush-unfenced",
        "fs",
        "fs-resize",
        "recovery clears slots behind a size that a dead process did not flush",
    ),
    exhibit(
        "robust-death-unsaid",
        "media",
        "tx-shared",
        "the next holder of a dead process's lock is not told of the death: half-done changes stay",
    ),
    exhibit(
        "turn-change-unsaid",
        "store",
        "tx-shared",
        "a process releases the shared lock without counting its changes: the next holder allocates blocks of the last one",
    ),
    exhibit(
        "hkv-news-ignored",
        "hkv",
        "hkv-hash-shared",
        "a process goes on with its cached state, although other processes have changed the store",
    ),
    exhibit("tx-apply-before-commit", "tx", "tx-blocks", "blocks are marked before the commit word is ordered"),
    exhibit("object-unlogged", "object", "object-list", "a value is changed in place and its old bytes are not logged"),
    exhibit(
        "object-count-unlogged",
        "object",
        "object-types",
        "a reference count is changed without a log: after a crash it counts a pointer that does not exist",
    ),
    exhibit(
        "object-vector-overwrites",
        "object",
        "object-types",
        "a place behind a vector's end is taken for unused although an element lay there before the transaction",
    ),
    exhibit(
        "object-vector-append-overwrites",
        "object",
        "object-collections",
        "places that elements of another vector are moved to are taken for unused although elements lay there before",
    ),
    exhibit(
        "object-deque-overwrites",
        "object",
        "object-collections",
        "a place of a queue is taken for unused although it held an element before the transaction",
    ),
    exhibit(
        "object-deque-drain-unlogged",
        "object",
        "object-collections",
        "places of a queue that elements move to when a range is drained are not logged",
    ),
    exhibit(
        "object-map-place-unnoted",
        "object",
        "object-maps",
        "an entry is removed and its place not logged: the next entry there overwrites bytes that an undo must restore",
    ),
    exhibit(
        "object-tree-shift-unnoted",
        "object",
        "object-maps",
        "entries of a node are shifted without a log: after a crash some are there twice, and others lost",
    ),
    exhibit(
        "object-generation-unflushed",
        "object",
        "object-types",
        "the number of an opening is not flushed: volatile cells set in it are believed by the next",
    ),
    exhibit(
        "object-answer-unsettled",
        "object",
        "object-list",
        "a transaction returns after a fence: on `file` it may vanish though its caller has the result",
    ),
    exhibit(
        "object-header-unflushed",
        "object",
        "object-create",
        "the pool's header is stored and not flushed: the name survives, the type does not",
    ),
    exhibit(
        "object-description-unnoted",
        "object",
        "object-migrate",
        "a migration writes root and description outside of its transaction: a crash leaves the one version's objects under the other's name",
    ),
    exhibit(
        "object-repair-frees-first",
        "object",
        "object-repair-used",
        "a repair frees blocks before it drops the value that holds them: after a crash a weak pointer still leads there",
    ),
    exhibit(
        "object-repair-counts-first",
        "object",
        "object-repair-used",
        "a repair counts an object less before the value that still points to it is given up: after a crash it is freed too early",
    ),
    exhibit(
        "object-repair-unasked",
        "object",
        "object-repair",
        "a repair is done under the token of a plan for a pool that has changed since",
    ),
    exhibit(
        "tree-commit-unordered",
        "cdds",
        "kv-puts",
        "the commit word shares a fence with the entries of its version",
    ),
    exhibit(
        "store-copy-unflushed",
        "store",
        "everbyte-merge",
        "the content of a copied object is stored and not flushed: its name survives, its content does not",
    ),
    exhibit(
        "tree-frees-forgotten",
        "cdds",
        "kv-repair",
        "a version that does nothing but free blocks is taken for empty, and is never committed",
    ),
    exhibit(
        "names-doubt-half-emptied",
        "store",
        "store-names-burst",
        "the intent list is emptied up to its first zero: words that a crash kept behind it join the list of a later change",
    ),
    exhibit(
        "names-doubt-unseen",
        "store",
        "store-names-doubt",
        "as above, and `check` does not report such words: only a second run fails on them",
    ),
    exhibit(
        "tree-parts-unflushed",
        "cdds",
        "kv-parts",
        "the table of a long value's chunks is not flushed with it: the value is there, and parts of it cannot be read",
    ),
    exhibit("tree-dropped-flush", "cdds", "kv-puts", "one line of a version is never flushed"),
    exhibit(
        "tree-ledger-not-replayed",
        "cdds",
        "kv-batches",
        "a committed version's allocations are not marked after a crash: its blocks are handed out again",
    ),
    exhibit(
        "tree-void-forgotten",
        "cdds",
        "kv-puts",
        "the number of a version that crashed is used again, and its leftovers come alive",
    ),
    exhibit(
        "tree-freed-key-compared",
        "cdds",
        "kv-shared-prefixes",
        "a search compares an emptied entry whose key block was freed and reused: it takes the wrong branch",
    ),
    exhibit(
        "tree-another-threads-ledger",
        "cdds",
        "kv-two-writers",
        "a thread commits a version and does not flush again the words that another thread's ledger changed",
    ),
    exhibit(
        "tree-abort-keeps-ends",
        "cdds",
        "kv-aborts",
        "a batch that is given up empties the entries it filled and leaves its end stamps: the next commit ends those entries",
    ),
    exhibit(
        "tree-abort-unflushed",
        "cdds",
        "kv-aborts",
        "the entries that a dropped batch takes back are not flushed: a crash after the next commit finds them alive",
    ),
    exhibit(
        "tree-abort-unfenced",
        "cdds",
        "kv-aborts",
        "the words that one thread takes back are flushed and not fenced: the next commit, on another thread, does not order it",
    ),
    exhibit(
        "tree-failed-opening-closes",
        "cdds",
        "kv-failed-opening",
        "an opening that fails marks the tree as closed, and the next one does not void the version that a crash interrupted",
    ),
    exhibit(
        "tree-no-sweep",
        "cdds",
        "kv-dead-after-restart",
        "entries that died before a restart are never listed: their blocks are not freed",
    ),
    exhibit(
        "mnemosyne-region-live-early",
        "mnemosyne",
        "mnemosyne-regions",
        "a region counts before the word that receives its address is on the medium: no pointer leads to it any more",
    ),
    exhibit(
        "mnemosyne-variables-unflushed",
        "mnemosyne",
        "mnemosyne-program",
        "a program's object gets its name before the initial values of its variables are on the medium",
    ),
];

/// The result of a visit to one exhibit.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The bug.
    pub name: &'static str,
    /// The crate that it breaks.
    pub crate_name: &'static str,
    /// The case explored.
    pub case: &'static str,
    /// The effect of the bug.
    pub story: &'static str,
    /// Whether the explorer found it.
    pub found: bool,
    /// The failure found, or the images explored in vain.
    pub report: Report,
}

/// Whether the explorer can tell right from wrong at all, under one profile.
#[derive(Clone, Debug, Serialize)]
pub struct Canary {
    /// The profile.
    pub profile: &'static str,
    /// The right program passes.
    pub right_passes: bool,
    /// The one that acknowledges before it stores fails.
    pub wrong_fails: bool,
}

/// One right and one wrong program, under every profile.
pub fn canaries() -> Vec<Canary> {
    let passes = |profile: Profile, early: bool| {
        let explorer = Explorer::new("canary").profiles(&[profile]);
        let outcome = explorer.explore(
            &Image::zeroed(4096),
            |media, oracle| {
                for value in 1..4 {
                    let op = oracle.begin("store");
                    if early {
                        oracle.acked(op);
                    }
                    media.store(64, value);
                    media.flush(64, 8);
                    media.barrier().expect("sim barriers do not fail");
                    if !early {
                        oracle.acked(op);
                    }
                }
            },
            |media, seen| match media.load(64) as usize >= seen.acked_count() {
                true => Ok(()),
                false => Err(format!("{seen:?}")),
            },
        );
        outcome.is_ok()
    };
    let told = |&(name, profile): &(&'static str, Profile)| {
        let (right_passes, wrong_fails) = (passes(profile, false), !passes(profile, true));
        Canary { profile: name, right_passes, wrong_fails }
    };
    Profile::ALL.iter().map(told).collect()
}

/// Visits every exhibit.
pub fn run() -> Vec<Outcome> {
    EXHIBITS.iter().map(Exhibit::visit).collect()
}

impl Exhibit {
    /// Explores the case with the bug switched on.
    ///
    /// # Panics
    /// If no case has the name.
    pub fn visit(&self) -> Outcome {
        let Exhibit { name, crate_name, story, case } = *self;
        let program = find(case).unwrap_or_else(|| panic!("{name}: no case is called {case}"));
        // A bug may break the program itself, before any crash: that counts as found by its first
        // ordinary run.
        let explore = std::panic::AssertUnwindSafe(|| with(name, || program.explore(&Settings::default())));
        let report = match std::panic::catch_unwind(explore) {
            Ok(report) => report,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "panicked".into());
                Report::broken(case, crate_name, format!("the program itself fails: {text}"))
            }
        };
        Outcome { name, crate_name, case, story, found: !report.passed(), report }
    }
}
