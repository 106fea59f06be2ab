//! [`UntypedPool`]: a pool without its program, walked by the description that lies in it.

use crate::description::described::Described;
use crate::layout::Header;
use crate::transaction::open_pool::OpenPool;
use crate::verify::deep::guess::name_leaks;
use crate::verify::deep::reader::Reader;
use crate::verify::deep::report::Report;
use crate::verify::deep::types::Types;
use crate::verify::deep::{self, Start};
use crate::{RepairPlan, Result, Token, transaction::open, verify::repair};
use everbyte_media::Offset;
use everbyte_store::Total;
use everbyte_store::raw::AsStore;
use std::collections::BTreeSet;

/// An open pool of types that are not in this program: for tools.
pub struct UntypedPool {
    pub(crate) inner: OpenPool,
    pub(crate) header: Header,
    pub(crate) description: String,
}

impl UntypedPool {
    /// Opens the pool named `name` as [`crate::Pool::open`] does, with a root of any type.
    /// Volatile state of earlier openings stays as it is.
    ///
    /// # Errors
    /// [`crate::Error::Store`] if there is no such object or it is open already;
    /// [`crate::Error::NotTyped`] if it is no pool; [`crate::Error::Damaged`], [`crate::Error::Tx`]
    /// if it cannot be read or recovered.
    pub fn open(store: &impl AsStore, name: &str) -> Result<UntypedPool> {
        let inner = open::attach_untyped(store.as_store(), name)?;
        let header = open::read_header(&inner.object)?;
        let description = open::description(&inner, &header)?;
        Ok(UntypedPool { inner, header, description })
    }

    /// The pool's name in its store.
    pub fn name(&self) -> &str {
        self.inner.object.name()
    }

    /// The description of the pool: docs/formats/object.md.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The allocations of the heap.
    ///
    /// # Errors
    /// [`crate::Error::Tx`] if its tables are damaged.
    pub fn allocated(&self) -> Result<Total> {
        let usage = self.inner.undo.heap().usage().map_err(everbyte_tx::Error::from)?;
        Ok(Total { blocks: usage.blocks, bytes: usage.allocated })
    }

    /// As [`crate::Root::examine`], by the description alone. A value that it does not explain is
    /// searched word by word, and every block that such a word could mean counts as in use.
    pub fn examine(&self, progress: &dyn Fn(u64)) -> Report {
        self.examine_without(&BTreeSet::new(), progress)
    }

    fn examine_without(&self, given_up: &BTreeSet<u64>, progress: &dyn Fn(u64)) -> Report {
        let undo = &self.inner.undo;
        let described = Described::parse(&self.description).unwrap_or_default();
        let (types, root) = Types::new(&described);
        let own = [self.inner.object.prime().saturating_add(self.header.schema), undo.lanes_at()].map(Offset::get);
        let mut report = deep::examine(undo.heap(), &own, undo.check(None), progress, |walk, start| {
            let mut reader = Reader::new(walk.without(given_up), &types);
            match start {
                Start::Root => {
                    reader.root(root, self.header.root.get());
                    reader.run_all()
                }
                Start::Met => reader.run(),
            }
        });
        name_leaks(&mut report, undo.heap(), &types);
        report
    }

    /// As [`crate::Root::plan_repair`], by the description alone.
    ///
    /// # Errors
    /// [`crate::Error::Unrepairable`] also if something is wrong and a type of the description is
    /// opaque.
    pub fn plan_repair(&self, progress: &dyn Fn(u64)) -> Result<RepairPlan> {
        repair::plan(&self.inner, &self.header, |given_up| self.examine_without(given_up, progress))
    }

    /// As [`crate::Root::repair`], by the description alone.
    ///
    /// # Errors
    /// As [`UntypedPool::plan_repair`] and [`crate::Root::repair`].
    pub fn repair(&mut self, token: Token, progress: &dyn Fn(u64)) -> Result<RepairPlan> {
        repair::run(&self.inner, token, self.plan_repair(progress)?)
    }
}

impl std::fmt::Debug for UntypedPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UntypedPool({})", self.inner.object.name())
    }
}
