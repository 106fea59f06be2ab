//! Reads into memory of the caller, which a loop of reads uses again.
//!
//! Values are copied, and no reference to mapped bytes is lent.
//!
//! Design: docs/design/borrowed-reads.md

use crate::error::Result;
use crate::tree::handle::{OpenTree, Tree, TreeSnapshot};
use crate::tree::key::TableNumber;
use crate::tree::node::Query;
use crate::tree::record::record_sum;
use crate::tree::version::View;

impl OpenTree {
    /// Replaces the contents of `value` by the value of `key`, if it is there; otherwise, and after
    /// an error, `value` is empty.
    #[inline]
    pub(crate) fn get_into(
        &self,
        view: &View,
        root: u64,
        table: TableNumber,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        let query = Query::new(table, key);
        let (node, Some((_, slot))) = self.find(view, root, &query)? else { return Ok(false) };
        let read = node.value_into(&slot, value).and_then(|()| node.record_sum(&slot));
        match read {
            Ok(sum) if sum == record_sum(query.sum, value) => return Ok(true),
            _ => value.clear(),
        }
        read.and_then(|_| node.damaged("a record fails its checksum"))
    }
}

impl Tree {
    /// As [`OpenTree::get_into`], at the newest settled version. Takes no lock.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub(crate) fn get_into(&self, table: TableNumber, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let shared = &self.shared;
        self.newest(|seen| shared.get_into(&shared.brief_view(seen.version), seen.root, table, key, value))
    }
}

impl TreeSnapshot {
    /// As [`OpenTree::get_into`], at this version.
    ///
    /// # Errors
    /// Damage; the reader is too far behind.
    pub(crate) fn get_into(&self, table: TableNumber, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.0.shared.get_into(&self.0.view, self.0.seen.root, table, key, value);
        if let Err(expired) = self.require_kept() {
            value.clear();
            return Err(expired);
        }
        found
    }
}

impl crate::tree::TreeBatch<'_> {
    /// As [`OpenTree::get_into`], this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn get_into(&self, table: TableNumber, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.shared.get_into(&self.view, self.root, table, key, value)
    }
}
