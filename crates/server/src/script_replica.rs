//! Replicas run by hand, without a network and without threads: for programs that are crashed at
//! each step.

use crate::error::{Error, Result};
use crate::keyspace::{ReplicatedTables, Tables};
use crate::replication::{Patch, PrimaryAddress, ReplicaOrigin, patches_of};
use crate::script::ServerScript;
use everbyte_kv::{Kv, Snapshot};
use std::sync::Arc;

/// A patch of a primary.
#[doc(hidden)]
#[derive(Clone)]
pub struct ReplicaPatch(pub(crate) Patch);

impl ReplicaPatch {
    /// The bytes of where the keys come from with it, as `ServerScript::settled_origin` returns
    /// them.
    pub fn origin(&self) -> Vec<u8> {
        self.0.origin.bytes()
    }

    /// Whether the keys are a mixture of two versions with it.
    pub fn is_between(&self) -> bool {
        self.0.origin.is_between()
    }
}

/// The patches by which a replica gets a copy of the first version, then the differences to the
/// others: read from the frames that a primary sends. A part has some `part_size` bytes, and so has
/// a patch.
///
/// # Errors
/// The store cannot be read.
#[doc(hidden)]
pub fn replica_patches(kv: &Kv, versions: &[Snapshot], part_size: usize) -> Result<Vec<ReplicaPatch>> {
    let tables = ReplicatedTables(Arc::new(Tables::open(kv.clone())?));
    let patches = patches_of(&tables, versions, part_size).map_err(|source| Error::Open { source })?;
    Ok(patches.into_iter().map(ReplicaPatch).collect())
}

impl ServerScript {
    /// The server becomes a replica that is given patches by hand.
    ///
    /// # Errors
    /// The store could not settle.
    pub fn become_replica(&mut self) -> Result<()> {
        let replication = &mut self.iterations.shared.replication;
        replication.primary = Some(PrimaryAddress { host: "script".into(), port: 1 });
        replication.make_table().map_err(|source| Error::Store { source })
    }

    /// An iteration that applies a patch.
    ///
    /// # Errors
    /// The store could not settle.
    pub fn apply(&mut self, patch: &ReplicaPatch) -> Result<()> {
        self.iterations.shared.replication.injected.push_back(patch.0.clone());
        self.iteration(&[]).map(drop)
    }

    /// The source of the keys that are settled here, as a primary is told: its bytes.
    pub fn settled_origin(&self) -> Option<Vec<u8>> {
        self.iterations.shared.replication.settled_origin.as_ref().map(ReplicaOrigin::bytes)
    }

    /// The source of the keys: its bytes.
    pub fn origin(&self) -> Vec<u8> {
        self.iterations.shared.replication.origin.bytes()
    }
}
