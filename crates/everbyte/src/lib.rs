//! # everbyte: persistent memory
//!
//! One file, the [`Store`], holds named objects that outlive the program. Three ways in:
//!
//! * [`object`]: Rust types that live in a pool and are changed in transactions; the compiler
//!   refuses programs that would break them;
//! * [`kv`]: an ordered map of bytes, for any number of threads;
//! * [`fs`]: file volumes, whose calls are whole or absent after a crash.
//!
//! and [`broker`], which gives programs of several users exactly the rights they were granted.
//!
//! ```
//! use everbyte::{PSafe, PCell, MemPool, Pool, Store, pool};
//! pool!(Visits);
//!
//! #[derive(PSafe)]
//! #[repr(C)]
//! struct Counter<P: MemPool> {
//!     count: PCell<u64, P>,
//! }
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("visits.everbyte");
//! let store = Store::create(&path, &Default::default())?;
//! for _ in 0..2 {
//!     let counter = Visits::open_or_create::<Counter<Visits>>(&store, "visits", |_| Counter { count: PCell::new(0) })?;
//!     let count = counter.tx(|j, counter| counter.count.update(|count| count + 1, j))?; // settled
//!     println!("visit number {count}");
//! #   assert!(count > 0);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
mod engines;
mod error;
mod merge;
pub mod store;

pub use engines::Engines;
pub use error::Error;
pub use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};
pub use everbyte_store::{
    CustomEngine, Deep, EngineError, EngineTools, Fact, Repair, RepairStep, Sums, Walk, require_whole,
};
pub use merge::{Merge, MergeError, MergeOptions, MergeStep};

/// Copies of open stores as of one moment; see `everbyte-backup`. [`Store::backup`] takes one.
pub mod backup {
    pub use everbyte_backup::{
        BackupFile, Error, Options, Phase, Progress, RestoreOptions, Restored, Result, Summary, restore,
    };
}

/// Programs of several users on one store; see `everbyte-broker`.
pub mod broker {
    pub use everbyte_broker::{About, Access, Broker, Client, Domain, Domains, Error, Options, Result, Want};
}

/// File volumes; see `everbyte-fs`.
pub mod fs {
    pub use everbyte_fs::{
        Allocate, Attributes, Entry, Error, FileKind, Found, Held, Indexed, Ino, NewFile, OpenVolume, Owner, Present,
        Rename, Result, SetAttributes, SetXattr, Update, Usage, Volume, VolumeOptions, VolumeRecovery, VolumeSnapshot,
    };
}

/// The calls of a POSIX file system on a volume; see `everbyte-posix`.
pub mod posix {
    pub use everbyte_posix::{
        AccessTimes, Acl, AllocateMode, At, Attributes, DirectoryEntry, Errno, Error, FileHandle, FileKind, FileMap,
        Files, FilesOptions, Ino, LockBy, LockKind, MapOptions, MapPages, NewTime, OnDamage, OpenFile, OpenFlags,
        PATH_MAX, PageSize, Process, RangeLock, RenameFlags, Result, Rights, Seek, SetXattr, User, VolumeStatus,
        WriteWindows, acl,
    };
}

/// HEAPO's key-value stores, a hash table and a tree; see `everbyte-hkv`.
pub mod hkv {
    pub use everbyte_hkv::{Direction, Error, Hash, Kv, KvKind, Result, SharedKv, Tree};
}

/// An ordered map of bytes; see `everbyte-kv`.
pub mod kv {
    pub use everbyte_kv::{
        Batch, BatchTable, BulkLoad, Change, Changes, Clock, Commit, Compared, Counter, DecodeError, Decoder, Dumped,
        Encoding, Entry, Error, ExpiringBatch, ExpiringRange, ExpiringSnapshot, ExpiringTable, HashBatch, HashEntries,
        HashSnapshot, HashStats, HashTable, KeyPrefix, Kv, KvReader, KvTable, Loss, ManualClock, NamedVersion,
        OtherTypeDetail, Range, Result, Salvaged, Savepoint, Settled, Settler, Snapshot, Stats, Swept, SystemClock,
        TableSnapshot, TableTypes, Transaction, TransactionRange, TransactionSavepoint, TransactionTable, Typed,
        TypedBatchTable, TypedRange, TypedSnapshot, TypedTable, Version, decode, encode,
    };
}

/// The place of a store, and how it is opened; see `everbyte-media`.
pub mod media {
    pub use everbyte_media::{BackendChoice, BackendKind, Durability, Length, Offset, Options};
}

/// Typed persistent objects; see `everbyte-object`.
pub mod object {
    pub use everbyte_object::{
        Detached, Error, Fault, FaultKind, FoundBy, In, InTx, Journal, Leak, MemPool, Migrate, Migrated, MigratedType,
        Out, PBTreeMap, PBTreeSet, PBinaryHeap, PBound, PCell, PHashMap, PHashSet, PMutex, PMutexGuard, POnceCell,
        PRangeInclusive, PReadGuard, PRef, PRefCell, PRefMut, PResult, PRwLock, PSafe, PString, PVec, PVecDeque,
        PWriteGuard, Parc, Pbox, PersistentTypesMustNotImplementDrop, Pool, PoolOptions, PoolTag, Prc, Reader,
        RepairPlan, Report, Result, Root, Schema, Shape, ShortString, Storable, Stored, Token, TooLong, Total, Tracer,
        TryError, TypeName, UntypedPool, VCell, btree_map, hash_map, parc, pool, prc, prelude,
    };
    #[cfg(feature = "serde")]
    pub use everbyte_object::{Dumped, Loaded, PDeserialize, Seed, load};
    #[doc(hidden)]
    pub use everbyte_object::{Niche, hidden};
}

pub use kv::Kv;
pub use media::{Durability, Options};
pub use object::*;
pub use store::{CreateOptions, Store};
