//! Questions to an index: the best documents for some words, a phrase, the terms with a prefix.
//!
//! None of them needs a transaction: they read the pool in place.

use super::tokens::tokens;
use super::{DocumentId, Index, Posting};
use everbyte::{MemPool, PVec};
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

/// How much a repetition of a word counts (BM25's `k1`).
const REPETITION: f64 = 1.2;
/// How much the length of a document counts against it (BM25's `b`).
const LENGTH: f64 = 0.75;

/// A document that answers a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit<'s> {
    /// The document's title.
    pub title: &'s str,
    /// Its rank by BM25: more is better.
    pub score: f64,
}

impl<P: MemPool> Index<P> {
    /// The documents with at least one word of `query`, the best one first.
    pub fn find(&self, query: &str) -> Vec<Hit<'_>> {
        let count = self.documents.len() as f64;
        let mean = self.length as f64 / count.max(1.0);
        let mut scores: BTreeMap<DocumentId, f64> = BTreeMap::new();
        for postings in tokens(query).filter_map(|word| self.terms.get(word.as_str())) {
            let having = postings.len() as f64;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            for posting in postings {
                let length = self.documents[&posting.document].length as f64;
                let frequency = posting.positions.len() as f64;
                let norm = frequency + REPETITION * (1.0 - LENGTH + LENGTH * length / mean);
                *scores.entry(posting.document).or_default() += rarity * frequency * (REPETITION + 1.0) / norm;
            }
        }
        let mut hits: Vec<Hit<'_>> =
            scores.into_iter().map(|(id, score)| Hit { title: self.title(id), score }).collect();
        hits.sort_by(|one, other| other.score.total_cmp(&one.score)); // equal ones stay by age
        hits
    }

    /// The titles of the documents that have the words of `phrase` one behind the other.
    pub fn phrase(&self, phrase: &str) -> Vec<&str> {
        let words: Option<Vec<&PVec<Posting<P>, P>>> =
            tokens(phrase).map(|word| self.terms.get(word.as_str())).collect();
        let Some([first, rest @ ..]) = words.as_deref() else { return Vec::new() };
        let follows = |posting: &Posting<P>, start: u32| {
            rest.iter().zip(start + 1..).all(|(postings, position)| {
                let at = postings.binary_search_by_key(&posting.document, |other| other.document);
                at.is_ok_and(|at| postings[at].positions.binary_search(&position).is_ok())
            })
        };
        let matching = |posting: &&Posting<P>| posting.positions.iter().any(|start| follows(posting, *start));
        first.iter().filter(matching).map(|posting| self.title(posting.document)).collect()
    }

    /// The terms that begin with `prefix`, in order, each with the number of its documents.
    pub fn terms(&self, prefix: &str) -> impl Iterator<Item = (&str, usize)> {
        let from = self.terms.range::<str, _>((Included(prefix), Unbounded));
        from.take_while(move |(term, _)| term.starts_with(prefix)).map(|(term, postings)| (&**term, postings.len()))
    }

    fn title(&self, id: DocumentId) -> &str {
        &self.documents[&id].title
    }
}
