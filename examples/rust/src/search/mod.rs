//! A full-text index: documents, and for each word the places where it occurs.
//!
//! Invariants
//!   SEARCH-1  The postings of a term are sorted by document; a term without postings is not there.
//!   SEARCH-2  Positions count the tokens of the text, from 0, in ascending order.
//!
//! Elsewhere: tokens (`tokens.rs`), questions (`query.rs`), the program (`bin/search.rs`).

mod query;
pub mod tokens;

use everbyte::{Journal, MemPool, PBTreeMap, PHashMap, PSafe, PString, PVec};
use std::collections::BTreeMap;

/// The number of a document; not used again.
pub type DocumentId = u64;

/// One document.
#[derive(PSafe)]
#[repr(C)]
pub struct Document<P: MemPool> {
    title: PString<P>,
    text: PString<P>,
    /// Tokens of the text.
    length: u64,
}

/// The places of one term in one document. Their number is the term's frequency.
#[derive(PSafe)]
#[repr(C)]
struct Posting<P: MemPool> {
    document: DocumentId,
    positions: PVec<u32, P>,
}

/// The index.
#[derive(PSafe, Default)]
#[repr(C)]
pub struct Index<P: MemPool> {
    documents: PBTreeMap<DocumentId, Document<P>, P>,
    titles: PHashMap<PString<P>, DocumentId, P>,
    terms: PBTreeMap<PString<P>, PVec<Posting<P>, P>, P>,
    /// Tokens of all documents.
    length: u64,
    next: DocumentId,
}

/// The effect of [`Index::put`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The title is new.
    Added,
    /// The text of the title is another one now.
    Updated,
    /// The title has that text.
    Unchanged,
}

impl<P: MemPool> Index<P> {
    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// How many different words there are.
    pub fn term_count(&self) -> usize {
        self.terms.len()
    }

    /// The titles, by age.
    pub fn titles(&self) -> impl Iterator<Item = &str> {
        self.documents.values().map(|document| &*document.title)
    }

    /// Stores the document `title` in place of one that has this title.
    pub fn put(&mut self, title: &str, text: &str, j: &Journal<P>) -> Put {
        let Some(&id) = self.titles.get(title) else {
            let id = self.next;
            self.next += 1;
            self.titles.insert(PString::from(title, j), id, j);
            self.add(id, title, text, j);
            return Put::Added;
        };
        if self.documents[&id].text == *text {
            return Put::Unchanged;
        }
        self.take_out(id, j);
        self.add(id, title, text, j);
        Put::Updated
    }

    /// Removes the document `title`; whether it was there.
    pub fn remove(&mut self, title: &str, j: &Journal<P>) -> bool {
        let id = self.titles.remove(title, j);
        id.map(|id| self.take_out(id, j)).is_some()
    }

    /// Removes the documents whose titles `keep` refuses; how many these were.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool, j: &Journal<P>) -> usize {
        let before = self.len();
        let mut gone = Vec::new();
        self.titles.retain(
            |title, id| {
                let stays = keep(title);
                gone.extend((!stays).then_some(*id));
                stays
            },
            j,
        );
        gone.into_iter().for_each(|id| self.take_out(id, j));
        before - self.len()
    }

    fn add(&mut self, id: DocumentId, title: &str, text: &str, j: &Journal<P>) {
        let mut places: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let mut length = 0;
        for (position, word) in tokens::tokens(text).enumerate() {
            places.entry(word).or_default().push(position as u32);
            length += 1;
        }
        for (word, positions) in places {
            let posting = Posting { document: id, positions: PVec::from_slice(&positions, j) };
            let postings = self.terms.entry(PString::from(word, j), j).or_default();
            let at = postings.partition_point(|posting| posting.document < id);
            postings.insert(at, posting, j);
        }
        let document = Document { title: PString::from(title, j), text: PString::from(text, j), length };
        self.documents.insert(id, document, j);
        self.length += length;
    }

    fn take_out(&mut self, id: DocumentId, j: &Journal<P>) {
        let Some(document) = self.documents.remove(&id, j) else { return };
        self.length -= document.length;
        for word in tokens::tokens(&document.text) {
            // A word that occurs twice is gone the second time.
            let Some(postings) = self.terms.get_mut(word.as_str(), j) else { continue };
            if let Ok(at) = postings.binary_search_by_key(&id, |posting| posting.document) {
                postings.remove(at, j);
            }
            if postings.is_empty() {
                self.terms.remove(word.as_str(), j);
            }
        }
    }
}
