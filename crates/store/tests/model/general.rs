//! Random programs of creations, growths, releases, removals and reopenings against a plain twin.

use everbyte_media::{BackendChoice, Media, Options};
use everbyte_store::{CLUSTER, CreateOptions, Engine, Error, FormatOptions, Object, ObjectOptions, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
enum Op {
    Create { name: u8, span: u8, fail: bool },
    Remove { name: u8 },
    Grow { name: u8, clusters: u8 },
    Release { name: u8, from: u8, clusters: u8 },
    Back { name: u8, from: u8, clusters: u8 },
    Write { name: u8, cluster: u8, value: u64 },
    SetRoot { name: u8, root: u64 },
    Trim,
    Reopen { close: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let name = || 0u8..6;
    prop_oneof![
        2 => (name(), 0u8..6, prop::bool::weighted(0.2)).prop_map(|(name, span, fail)| Op::Create { name, span, fail }),
        1 => name().prop_map(|name| Op::Remove { name }),
        3 => (name(), 0u8..5).prop_map(|(name, clusters)| Op::Grow { name, clusters }),
        2 => (name(), 0u8..8, 0u8..4).prop_map(|(name, from, clusters)| Op::Release { name, from, clusters }),
        2 => (name(), 0u8..8, 0u8..4).prop_map(|(name, from, clusters)| Op::Back { name, from, clusters }),
        4 => (name(), 0u8..8, 1u64..).prop_map(|(name, cluster, value)| Op::Write { name, cluster, value }),
        1 => (name(), any::<u64>()).prop_map(|(name, root)| Op::SetRoot { name, root }),
        1 => Just(Op::Trim),
        1 => any::<bool>().prop_map(|close| Op::Reopen { close }),
    ]
}

/// The expected state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Twin {
    span: u64,
    root: u64,
    /// For each cluster below `backed`: its word at 4096, or `None` if released.
    clusters: Vec<Option<u64>>,
}

/// How a store is reopened.
enum Place {
    Memory(Media),
    File(PathBuf, Options),
}

struct Pair {
    place: Place,
    store: Option<Store>,
    twin: BTreeMap<String, Twin>,
}

/// The word that a test writes in a cluster: past the prime page's header.
const WORD: u64 = 4096;

impl Pair {
    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn object(&self, name: &str) -> Option<Object> {
        match self.store().object(name) {
            Ok(object) => Some(object),
            Err(Error::NotFound { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self, op: &Op) {
        let name = |index: u8| format!("dir{}/object{index}", index % 2);
        match *op {
            Op::Create { name: index, span, fail } => {
                let (name, span) = (name(index), CLUSTER << span);
                let options = ObjectOptions { engine: Engine::Heap, fingerprint: span, span: Some(span) };
                let made = self.store().create_object(&name, options, |object| {
                    assert_eq!(object.root(), 0);
                    let end = object.media().read_vec(object.prime() + 512, CLUSTER as usize - 512);
                    assert!(end.iter().all(|&byte| byte == 0), "a new object is zeros");
                    if fail { Err(Error::BadOption { detail: "as asked".into() }) } else { Ok(()) }
                });
                match made {
                    Ok(_) => {
                        let old = self.twin.insert(name, Twin { span, root: 0, clusters: vec![Some(0)] });
                        assert_eq!(old, None, "a name was given twice");
                    }
                    Err(Error::Exists { .. }) => assert!(self.twin.contains_key(&name)),
                    Err(Error::NoSpan { .. }) => assert!(self.twin.values().map(|twin| twin.span).sum::<u64>() > 0),
                    Err(Error::BadOption { .. }) => assert!(fail),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Remove { name: index } => match self.store().remove_object(&name(index)) {
                Ok(()) => assert!(self.twin.remove(&name(index)).is_some()),
                Err(Error::NotFound { .. }) => assert!(!self.twin.contains_key(&name(index))),
                Err(error) => panic!("{error}"),
            },
            Op::Grow { name: index, clusters } => {
                let Some(object) = self.object(&name(index)) else { return };
                let twin = self.twin.get_mut(&name(index)).unwrap();
                let fits = (twin.clusters.len() as u64 + u64::from(clusters)) * CLUSTER <= twin.span;
                match object.grow(u64::from(clusters) * CLUSTER) {
                    Ok(range) => {
                        assert!(fits);
                        assert_eq!(range.end, object.backed().get());
                        let zeros = object.media().read_vec(range.start, (range.end - range.start) as usize);
                        assert!(zeros.iter().all(|&byte| byte == 0), "grown room is zeros");
                        twin.clusters.extend(std::iter::repeat_n(Some(0), usize::from(clusters)));
                    }
                    Err(Error::SpanFull { .. }) => assert!(!fits),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Release { name: index, from, clusters } | Op::Back { name: index, from, clusters } => {
                let Some(object) = self.object(&name(index)) else { return };
                let twin = self.twin.get_mut(&name(index)).unwrap();
                let (from, to) = (usize::from(from), usize::from(from) + usize::from(clusters));
                let range = object.prime() + from as u64 * CLUSTER..object.prime() + to as u64 * CLUSTER;
                let back = matches!(op, Op::Back { .. });
                let outcome = if back { object.back(range) } else { object.release(range) };
                match outcome {
                    Ok(()) => {
                        assert!(from > 0 && to <= twin.clusters.len());
                        for cluster in &mut twin.clusters[from..to] {
                            *cluster = if back { Some(cluster.unwrap_or(0)) } else { None };
                        }
                    }
                    Err(Error::BadRange { .. }) => assert!(from == 0 || to > twin.clusters.len()),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Write { name: index, cluster, value } => {
                let Some(object) = self.object(&name(index)) else { return };
                let twin = self.twin.get_mut(&name(index)).unwrap();
                let Some(Some(word)) = twin.clusters.get_mut(usize::from(cluster)) else { return };
                *word = value;
                let media = object.media();
                let at = object.prime() + u64::from(cluster) * CLUSTER + WORD;
                let _section = media.section();
                media.store(at, value);
                media.flush(at, 8);
            }
            Op::SetRoot { name: index, root } => {
                let Some(object) = self.object(&name(index)) else { return };
                object.set_root(root);
                self.twin.get_mut(&name(index)).unwrap().root = root;
            }
            Op::Trim => {
                self.store().trim().unwrap();
                assert_eq!(self.store().info().waiting, 0);
            }
            Op::Reopen { close } => {
                let store = self.store.take().unwrap();
                if close {
                    store.close().unwrap();
                } else {
                    // on `file` an abandoned store keeps what was settled
                    store.media().barrier().unwrap();
                    store.media().clone().abandon();
                }
                drop(store);
                let store = match &self.place {
                    Place::Memory(media) => Store::attach(media.clone()).unwrap(),
                    Place::File(path, options) => Store::open(path, options).unwrap(),
                };
                assert_eq!(store.recovery().clean, close);
                assert!(store.recovery().creations.is_empty() && store.recovery().growths.is_empty());
                self.store = Some(store);
            }
        }
    }

    fn compare(&self) {
        let store = self.store();
        assert_eq!(store.check(), []);
        let listed: Vec<String> = store.objects().unwrap().into_iter().map(|object| object.name).collect();
        assert_eq!(listed, self.twin.keys().cloned().collect::<Vec<_>>());
        let mut backed = 0;
        for (name, twin) in &self.twin {
            let object = store.object(name).unwrap();
            assert_eq!((object.span().end - object.prime().get(), object.root()), (twin.span, twin.root));
            assert_eq!((object.engine(), object.fingerprint()), (Engine::Heap, twin.span));
            assert_eq!(object.backed(), object.prime() + twin.clusters.len() as u64 * CLUSTER);
            for (index, cluster) in twin.clusters.iter().enumerate() {
                let at = object.prime() + index as u64 * CLUSTER;
                let found = object.is_backed(at).then(|| object.media().load(at + WORD));
                assert_eq!(found, *cluster, "cluster {index} of {name}");
                backed += cluster.map_or(0, |_| CLUSTER);
            }
        }
        assert_eq!(store.info().backed, backed);
    }
}

fn run(place: Place, store: Store, ops: &[Op]) {
    let mut pair = Pair { place, store: Some(store), twin: BTreeMap::new() };
    for op in ops {
        pair.step(op);
        pair.compare();
    }
}

fn run_file(dir: &Path, backend: BackendChoice, ops: &[Op]) {
    let options = Options { backend, log_bytes: 256 << 10, ..Options::default() };
    let path = dir.join("a.store");
    let store =
        Store::create(&path, &CreateOptions { media: options.clone(), max: 8 << 20, ..CreateOptions::default() })
            .unwrap();
    run(Place::File(path, options), store, ops);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_twin_in_memory(ops in prop::collection::vec(op(), 1..60)) {
        let media = Media::anonymous(4 << 20, &Options::default()).unwrap();
        let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
        run(Place::Memory(media), store, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_twin_through_the_log(ops in prop::collection::vec(op(), 1..40)) {
        run_file(tempfile::tempdir().unwrap().path(), BackendChoice::File, &ops);
    }

    #[test]
    fn agrees_with_the_twin_in_a_shared_file(ops in prop::collection::vec(op(), 1..40)) {
        run_file(tempfile::tempdir().unwrap().path(), BackendChoice::Shm, &ops);
    }
}
