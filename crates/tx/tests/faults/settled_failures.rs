//! A transaction that fails tells nothing that a power cut can take back (TX-5).

use everbyte_media::{BackendChoice, Durability, Options, museum};
use everbyte_store::{CreateOptions, Engine, ObjectOptions, Store};
use everbyte_tx::{Committed, Error, TxError, TxLock, Undo};
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Stage {
    _dir: tempfile::TempDir,
    store: Store,
    undo: Undo,
    root: u64,
    lock: TxLock,
}

impl Stage {
    fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let open = Options {
            backend: BackendChoice::File,
            durability: Durability::Always,
            background: false,
            ..Options::default()
        };
        let options = CreateOptions { media: open, ..CreateOptions::default() };
        let store = Store::create(&dir.path().join("store"), &options).unwrap();
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(1 << 20) };
        let object = store.create_object("o", options, Undo::format).unwrap();
        let root = object.root_at();
        let undo = Undo::open(object).unwrap();
        undo.run(|tx| tx.store(root.get(), 1)).unwrap();
        Stage { _dir: dir, store, undo, root: root.get(), lock: TxLock::new() }
    }

    /// A commit that is ordered and not settled: its lock has been released, its caller has not yet
    /// waited for the disk.
    fn unsettled(&self, value: u64) -> Committed<()> {
        self.undo.run_ordered(|tx| tx.lock(&self.lock).and_then(|()| tx.store(self.root, value))).unwrap()
    }

    fn read(&self, tx: &everbyte_tx::Tx<'_>) -> u64 {
        tx.lock(&self.lock).unwrap();
        tx.media().load(self.root)
    }

    fn syncs(&self) -> u64 {
        self.store.media().counts().syncs
    }

    /// One transaction that reads unsettled bytes, and fails; returns whether the failure was
    /// reported after a sync.
    fn settles(&self, failure: impl FnOnce(&Stage) -> u64) -> bool {
        let value = self.undo.media().load(self.root) + 1;
        let ordered = self.unsettled(value);
        let before = self.syncs();
        assert_eq!(failure(self), value, "the body reads what is ordered");
        drop(ordered);
        self.syncs() > before
    }
}

type Way = (&'static str, fn(&Stage) -> u64);

const WAYS: [Way; 6] = [
    ("an error", |stage| {
        let told = stage.undo.run(|tx| Err::<(), u64>(stage.read(tx)));
        let Err(TxError::Aborted(value)) = told else { panic!("{told:?}") };
        value
    }),
    ("a nested failure that was caught", |stage| {
        let mut seen = 0;
        let told = stage.undo.run(|tx| {
            seen = stage.read(tx);
            let _ = stage.undo.run(|_| Err::<(), ()>(()));
            Ok::<(), ()>(())
        });
        assert!(matches!(told, Err(TxError::Doomed)));
        seen
    }),
    ("a panic", |stage| {
        let told = catch_unwind(AssertUnwindSafe(|| {
            stage.undo.run(|tx| -> Result<(), ()> { std::panic::panic_any(stage.read(tx)) })
        }));
        *told.unwrap_err().downcast::<u64>().unwrap()
    }),
    ("a commit without room", |stage| {
        let heap = stage.undo.heap();
        let mut seen = 0;
        let told = stage.undo.run(|tx| {
            seen = stage.read(tx);
            // So many operations that the lane must be extended, from a heap that is full by then.
            let mut small = 0;
            while tx.allocate(64).is_ok() {
                small += 1;
            }
            assert!(small > 1000);
            Ok::<(), Error>(())
        });
        assert!(matches!(told, Err(TxError::Engine(_))), "{told:?}");
        assert!(heap.usage().unwrap().allocated < 100_000, "rolled back");
        seen
    }),
    ("a rollback by hand", |stage| {
        let started = stage.undo.start();
        let value = stage.read(&started.tx());
        started.rollback().unwrap();
        value
    }),
    ("a dropped transaction", |stage| {
        let started = stage.undo.start();
        stage.read(&started.tx())
    }),
];

/// The first transaction is ordered and waits for the disk; a second one reads its value under the
/// lock and fails with it.
#[test]
fn a_failure_is_told_after_what_it_saw_is_settled() {
    let stage = Stage::new();
    for (way, failure) in WAYS {
        assert!(stage.settles(failure), "{way} told a value that a power cut takes back");
        let before = stage.syncs();
        let _ = stage.undo.run(|tx| Err::<(), u64>(stage.read(tx)));
        assert_eq!(stage.syncs(), before, "{way}: a settled value is told without a sync");
    }
    for (way, failure) in WAYS {
        assert!(
            !museum::with("tx-failure-tells-unsettled", || stage.settles(failure)),
            "{way}: the seeded bug is found"
        );
        stage.store.media().barrier().unwrap();
    }
}
