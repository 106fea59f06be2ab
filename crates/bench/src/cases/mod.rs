//! The cases, each a file: what is measured, on what, against whom.

mod bridge;
mod bridge_first;
mod collections;
mod files;
mod files_appends;
mod files_barriers;
mod files_bars;
mod files_latencies;
mod files_mapped;
mod files_synced;
mod files_systems;
mod files_threads;
mod files_windows;
mod forms;
mod heap;
mod hkv;
mod kv;
mod kv_bytes;
mod kv_floor;
mod kv_large;
mod kv_sizes;
mod kv_tails;
mod layers;
mod log;
mod mount;
mod mount_calls;
mod mount_null;
mod mount_personalities;
mod mount_programs;
mod mount_systems;
mod mount_trees;
mod names;
mod objects;
mod patomic;
mod patomic_c;
mod patomic_table;
mod rbtree;
mod reopen;
mod restart;
mod serve;
mod space;
mod tx;
mod workloads;
mod ycsb;

use crate::harness::Bench;

/// The failure, in words for the person at the terminal.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One case.
pub struct BenchCase {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&mut Bench<'_>) -> Result,
}

/// All of them, in the order `all` runs them.
pub const ALL: &[BenchCase] = &[
    BenchCase { name: "log", about: "word log with torn bits against its base form; undo journal", run: log::run },
    BenchCase {
        name: "names",
        about: "finding names against stat and open of files, on memory and on a disk",
        run: names::run,
    },
    BenchCase {
        name: "files",
        about: "files and directories of a volume against tmpfs and ext4 through system calls",
        run: files::run,
    },
    BenchCase {
        name: "mount",
        about: "a mounted volume against ext4, tmpfs, a FUSE server that does nothing, and other FUSE file systems",
        run: mount::run,
    },
    BenchCase { name: "tx", about: "undo transactions against libpmemobj", run: tx::run },
    BenchCase {
        name: "patomic",
        about: "isolated redo transactions against libpmemobj, and a hash table against Berkeley DB's",
        run: patomic::run,
    },
    BenchCase {
        name: "rbtree",
        about: "inserts into a red-black tree against writing all of it with Boost.Serialization",
        run: rbtree::run,
    },
    BenchCase {
        name: "objects",
        about: "operations of typed objects against libpmemobj and volatile Rust",
        run: objects::run,
    },
    BenchCase {
        name: "collections",
        about: "queues, sets and sorting of typed objects against the standard library",
        run: collections::run,
    },
    BenchCase {
        name: "workloads",
        about: "tree, hash table, B+tree and word count against the same in C on libpmemobj",
        run: workloads::run,
    },
    BenchCase {
        name: "bridge",
        about: "C++ over the bridge against the same in Rust, and in C on libpmemobj",
        run: bridge::run,
    },
    BenchCase { name: "heap", about: "objects made, opened, grown and shrunk, against files and mmap", run: heap::run },
    BenchCase {
        name: "hkv",
        about: "HEAPO's tree and hash table against Berkeley DB, with the bytes logged",
        run: hkv::run,
    },
    BenchCase {
        name: "kv",
        about: "ordered store against LMDB, redb and RocksDB, on memory and on a disk",
        run: kv::run,
    },
    BenchCase {
        name: "kv-sizes",
        about: "puts and gets with keys of 8 and 24 bytes and values from 8 bytes to 4 KiB",
        run: kv_sizes::run,
    },
    BenchCase {
        name: "kv-tails",
        about: "single puts by their times, and a writer beside readers",
        run: kv_tails::run,
    },
    BenchCase { name: "kv-bytes", about: "bytes sent to the disk for a durable put", run: kv_bytes::run },
    BenchCase {
        name: "kv-floor",
        about: "durable puts on a disk beside one synced write of as many bytes",
        run: kv_floor::run,
    },
    BenchCase {
        name: "kv-large",
        about: "20 million pairs, in pieces of at most ten minutes that go on where the last one stopped",
        run: kv_large::run,
    },
    BenchCase {
        name: "layers",
        about: "the ordered store, the same without flushes and fences, and a plain B+-tree",
        run: layers::run,
    },
    BenchCase {
        name: "forms",
        about: "the versioned hash table, the ordered store, and HEAPO's hash table and tree",
        run: forms::run,
    },
    BenchCase {
        name: "ycsb",
        about: "YCSB's workloads A to F on the ordered store, LMDB, redb and RocksDB",
        run: ycsb::run,
    },
    BenchCase {
        name: "reopen",
        about: "from opening to the first value, after a clean close and after kill -9",
        run: reopen::run,
    },
    BenchCase {
        name: "restart",
        about: "what a program waits for when it starts again: regions, transactions, heap, records",
        run: restart::run,
    },
    BenchCase { name: "serve", about: "the server against Redis, synced and without a file", run: serve::run },
    BenchCase {
        name: "space",
        about: "bytes on the file system, loaded and after replacing every value",
        run: space::run,
    },
];

/// Runs what a hidden word asks for, in a process that a case started; `None` if the word is none
/// of them.
pub fn hidden(words: &[String]) -> Option<Result> {
    match words.split_first()? {
        (word, rest) if word == reopen::VICTIM => Some(reopen::victim(rest)),
        (word, rest) if word == kv_tails::READS_MEMORY => Some(kv_tails::reads_memory(rest)),
        (word, rest) if word == space::RESIDENT => Some(space::resident(rest)),
        (word, rest) if word == files_threads::WORKER => Some(files_threads::worker(rest)),
        (word, rest) if word == mount_systems::DAEMON => Some(mount_systems::daemon(rest)),
        (word, rest) if word == mount_null::SERVER => Some(mount_null::server(rest)),
        (word, rest) if word == serve::SERVER => Some(serve::server(rest)),
        _ => None,
    }
}
