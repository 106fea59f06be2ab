//! [`Kv`]: a store of either kind, for callers that learn the kind only at the opening.

use crate::base::fingerprint;
use crate::layout::TREE_MAGIC;
use crate::raw::Raw;
use crate::{Hash, Result, Tree};
use everbyte_store::raw::{AsStore, IntoObject};
use everbyte_store::{Finding, Object};

/// The structure of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvKind {
    /// A hash table.
    Hash,
    /// A tree, which has keys in their order.
    Tree,
}

/// A store of either kind.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few of them, and they are not moved about")]
pub enum Kv {
    /// A hash table.
    Hash(Hash),
    /// A tree.
    Tree(Tree),
}

/// Calls the method of the hash table or of the tree.
macro_rules! either {
    ($kv:ident.$call:ident($($argument:expr),*)) => {
        match $kv {
            Kv::Hash(hash) => hash.$call($($argument),*),
            Kv::Tree(tree) => tree.$call($($argument),*),
        }
    };
}

impl Kv {
    /// [`Hash::create`] or [`Tree::create`].
    ///
    /// # Errors
    /// As these.
    pub fn create(store: &impl AsStore, name: &str, kind: KvKind, span: Option<u64>) -> Result<Kv> {
        match kind {
            KvKind::Hash => Hash::create(store, name, span).map(Kv::Hash),
            KvKind::Tree => Tree::create(store, name, span).map(Kv::Tree),
        }
    }

    /// [`Hash::open`] or [`Tree::open`], by the object's fingerprint.
    ///
    /// # Errors
    /// As these.
    pub fn open(object: impl IntoObject) -> Result<Kv> {
        let object = object.into_object();
        if object.fingerprint() == fingerprint(TREE_MAGIC) {
            Tree::open(object).map(Kv::Tree)
        } else {
            Hash::open(object).map(Kv::Hash)
        }
    }

    /// [`Hash::get`] or [`Tree::get`].
    ///
    /// # Errors
    /// As these.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        either!(self.get(key))
    }

    /// [`Hash::insert`] or [`Tree::insert`].
    ///
    /// # Errors
    /// As these.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        either!(self.insert(key, value))
    }

    /// [`Hash::update`] or [`Tree::update`].
    ///
    /// # Errors
    /// As these.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        either!(self.update(key, value))
    }

    /// [`Hash::delete`] or [`Tree::delete`].
    ///
    /// # Errors
    /// As these.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        either!(self.delete(key))
    }

    /// [`Hash::scan`], in no order, or [`Tree::scan`], in that of the keys.
    ///
    /// # Errors
    /// As these.
    pub fn scan(&self, each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        either!(self.scan(each))
    }

    /// [`Hash::check`] or [`Tree::check`].
    pub fn check(&self) -> Vec<Finding> {
        either!(self.check())
    }

    /// [`Hash::logged`] or [`Tree::logged`].
    pub fn logged(&self) -> u64 {
        either!(self.logged())
    }
}

impl Raw for Kv {
    fn object(&self) -> &Object {
        match self {
            Kv::Hash(hash) => hash.object(),
            Kv::Tree(tree) => tree.object(),
        }
    }
}
