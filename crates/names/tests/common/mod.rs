//! The smallest owner of a trie, for tests: records of a length and a name, clusters in order.
#![allow(dead_code)] // each test uses some of it

use everbyte_media::{Media, Options};
use everbyte_names::layout::BlockKind;
use everbyte_names::{Clusters, Damaged, Fault, Records, Trie};
use everbyte_space::CLUSTER;
use std::ops::Range;

/// The start of the object that holds the trie.
pub(crate) const START: u64 = CLUSTER;
/// Bytes of the media.
pub(crate) const MAX: u64 = 8 << 20;

/// Records whose first word is the length of their name, 0 in a free one, and whose name follows.
pub(crate) struct LengthAndName;

impl Records for LengthAndName {
    fn outside(&self) -> Range<u64> {
        0..0
    }

    fn has_name(&self, media: &Media, at: u64, name: &[u8]) -> bool {
        self.name_of(media, at).is_some_and(|found| found == name)
    }

    fn name_of(&self, media: &Media, at: u64) -> Option<Vec<u8>> {
        let len = Some(media.load(at)).filter(|&len| len < BlockKind::Record.size() - 8)?;
        Some(media.read_vec(at + 8, len as usize))
    }

    fn is_free(&self, media: &Media, at: u64) -> bool {
        media.load(at) == 0
    }
}

/// Media that has every cluster from the beginning.
pub(crate) struct AllClusters;

impl Clusters for AllClusters {
    type Error = Damaged;

    fn add_cluster(&self, end: u64) -> Result<u64, Damaged> {
        assert!(end + CLUSTER <= MAX);
        Ok(end)
    }
}

/// A trie with its owner.
pub(crate) struct Desk {
    pub trie: Trie<LengthAndName>,
    pub media: Media,
}

impl Desk {
    pub(crate) fn new() -> Desk {
        let media = Media::anonymous(MAX, &Options::default()).unwrap();
        media.extend(0, MAX).unwrap();
        Desk::format(media)
    }

    /// An empty trie on media of zeros.
    pub(crate) fn format(media: Media) -> Desk {
        let trie = Trie::new(media.clone(), START..START + CLUSTER, LengthAndName, everbyte_names::LastClose::Clean);
        trie.format();
        media.fence();
        Desk { trie, media }
    }

    pub(crate) fn insert(&mut self, name: &str) {
        let record = self.trie.take_record(&AllClusters).unwrap();
        self.media.write(record + 8, name.as_bytes());
        self.media.store(record, name.len() as u64);
        self.trie.burst_due(&AllClusters).unwrap();
        self.trie.prepare(&AllClusters).unwrap();
        self.trie.insert(record, name.as_bytes()).unwrap();
    }

    pub(crate) fn find(&mut self, name: &str) -> Option<u64> {
        self.trie.find(name.as_bytes()).unwrap()
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.trie.burst_due(&AllClusters).unwrap();
        let record = self.find(name).unwrap();
        self.trie.remove(record, name.as_bytes()).unwrap();
        self.media.store(record, 0);
        self.trie.give_record(record);
    }

    pub(crate) fn list(&self, prefix: &str) -> Vec<String> {
        let records = self.trie.list(prefix.as_bytes()).unwrap().into_iter();
        let names = records.map(|record| LengthAndName.name_of(&self.media, record).unwrap());
        names.map(|name| String::from_utf8(name).unwrap()).collect()
    }

    pub(crate) fn check(&self) -> Vec<Fault> {
        let places = self.trie.record_places().unwrap().into_iter();
        let named = places.filter(|&at| !LengthAndName.is_free(&self.media, at));
        let named = named.map(|at| (at, LengthAndName.name_of(&self.media, at).unwrap()));
        let named: Vec<(u64, String)> = named.map(|(at, name)| (at, String::from_utf8(name).unwrap())).collect();
        self.trie.check(named.iter().map(|(at, name)| (*at, &**name)))
    }
}
