//! Migration: a pool that an older version of a program has made becomes one of this version.
//!
//! Steps
//!   1. the pool's description is compared with the program's types, version by version: the plan
//!      (`migrate/plan.rs`)
//!   2. one transaction: every value that changes is moved into a new block (`migrate/moving.rs`),
//!      by the program's functions where its types say `from`; old blocks are freed; header and
//!      description follow
//!   3. settled: the pool is one of this version, or still the old one
//!
//! Threads: the pool type is locked meanwhile, so no other thread uses the pool.
//!
//! Design: docs/design/migration.md

mod maps;
mod migrated;
mod mismatch;
mod moving;
mod own_types;
mod plan;
mod planner;
mod refusal;
mod values;

pub use migrated::{Migrated, MigratedType};
pub(crate) use mismatch::{Stored, mismatch};
pub use moving::Moving;
pub use plan::{PartId, Planner};
pub(crate) use plan::{PartKind, PlanOf};
pub use refusal::Refusal;

use crate::description::described::Described;
use crate::description::schema::Schema;
use crate::transaction::open::{Bound, FoundPool, describe, lock};
use crate::transaction::open_pool::OpenPool;
use crate::transaction::running;
use crate::{Error, In, Journal, MemPool, Out, PSafe, PoolTag, Result, Root, TryError};
use everbyte_media::{Damage, Length};
use everbyte_store::Store;
use moving::Fault;
use plan::Plan;
use std::marker::PhantomData;
use std::sync::Arc;

/// How a value of an older version becomes one of this version.
///
/// The older type is kept in the source under another name, as it was but for its pointers, which
/// name what the program has now; the newer one says `from`:
///
/// ```
/// use everbyte_object::{Journal, MemPool, Migrate, PRefCell, PSafe, Pbox};
///
/// #[derive(PSafe)]
/// #[persist(version = 2, from = NodeV1<P>)]
/// #[repr(C)]
/// struct Node<P: MemPool> {
///     val: i64,
///     changes: u32,
///     next: PRefCell<Option<Pbox<Node<P>, P>>, P>,
/// }
///
/// #[derive(PSafe)]
/// #[persist(version = 1, name = "Node")]
/// #[repr(C)]
/// struct NodeV1<P: MemPool> {
///     val: i32,
///     next: PRefCell<Option<Pbox<Node<P>, P>>, P>,
/// }
///
/// impl<P: MemPool> Migrate<NodeV1<P>, P> for Node<P> {
///     fn migrate(old: NodeV1<P>, _: &Journal<P>) -> Node<P> {
///         Node { val: old.val.into(), changes: 0, next: old.next }
///     }
/// }
/// ```
///
/// Objects behind `old` have been migrated before; the values that it owns and the new value does
/// not take are dropped. A panic rolls the whole migration back.
///
/// A type is made from one of an older version:
///
/// ```compile_fail,E0080
/// use everbyte_object::{Journal, MemPool, Migrate, PSafe, Pool, pool};
///
/// #[derive(PSafe)]
/// #[persist(version = 3, name = "Price")]
/// #[repr(C)]
/// struct Before(u32);
///
/// #[derive(PSafe)]
/// #[persist(version = 2, from = Before)]
/// #[repr(C)]
/// struct Price(u64);
///
/// impl<P: MemPool> Migrate<Before, P> for Price {
///     fn migrate(old: Before, _: &Journal<P>) -> Price {
///         Price(old.0.into())
///     }
/// }
///
/// pool!(P1);
/// let open = P1::open_migrating::<Price>;
/// # let _: fn(&everbyte_store::Store, &str) -> _ = open;
/// ```
#[diagnostic::on_unimplemented(
    message = "nothing says how `{Old}` becomes `{Self}`",
    label = "declared by `from`",
    note = "implement `Migrate<{Old}, P>` for `{Self}`, for every pool `P: MemPool`"
)]
pub trait Migrate<Old, P: MemPool>: Sized {
    /// Makes the value of this version.
    fn migrate(old: Old, j: &Journal<P>) -> Self;
}

pub(crate) fn open<R: PSafe<Out<G>>, G: PoolTag>(store: &Store, name: &str) -> Result<Root<R, Out<G>>> {
    let mut bound = lock::<G>()?;
    let found = FoundPool::of(store, name)?;
    let text = Schema::of::<R, Out<G>>().text(found.header.format);
    if found.is_of(&text) {
        return found.into_root::<R, G>(&mut bound);
    }
    let (inner, offset, migrated) = attempt::<R, G>(found, &mut bound, &text, true)?;
    Ok(Root { inner, offset, migrated: Some(Box::new(migrated)), marker: PhantomData })
}

pub(crate) fn rehearse<R: PSafe<Out<G>>, G: PoolTag>(store: &Store, name: &str) -> Result<Migrated> {
    let mut bound = lock::<G>()?;
    let found = FoundPool::of(store, name)?;
    let text = Schema::of::<R, Out<G>>().text(found.header.format);
    if found.is_of(&text) {
        return Ok(Migrated::default());
    }
    let (.., migrated) = attempt::<R, G>(found, &mut bound, &text, false)?;
    G::slot().unbind(&mut bound);
    Ok(migrated)
}

/// Reasons for which the transaction of a migration does not commit.
enum Stop {
    Fault(Fault),
    Rehearsed(u64, Migrated),
}

/// Migrates the pool, binds it, and answers where its root lies; or, if it is not to `keep` that,
/// rolls it back.
fn attempt<R: PSafe<Out<G>>, G: PoolTag>(
    found: FoundPool,
    bound: &mut Bound,
    text: &str,
    keep: bool,
) -> Result<(Arc<OpenPool>, u64, Migrated)> {
    let (name, at) = (found.name().to_string(), found.description_at().get());
    let unread = || Error::from(Damage::at(at, "the description cannot be read").of_object(name.clone()));
    let described = Described::parse(&found.description).ok_or_else(unread)?;
    let plan = Plan::<In<'_, G>>::of::<R::At<'_>>(described, found.header.format); // 1
    let plan = plan.map_err(|refusal| refusal.error(&name, at))?;
    found.require_root(plan.part(plan::ROOT).stored.0)?;
    let header = found.header;
    let inner = found.bind::<G>(bound);
    let outcome = running::rooted::<G, _, _>(&inner, |running| {
        let moving = Moving::new(&plan, running);
        let root = moving.run(header.root.get()).map_err(Stop::Fault)?; // 2
        running.free(header.schema.get());
        describe(running, text, root, Length::of::<R>());
        let migrated = moving.migrated();
        if keep { Ok((root, migrated)) } else { Err(Stop::Rehearsed(root, migrated)) }
    });
    let error = match outcome {
        Ok((root, migrated)) | Err(TryError::Aborted(Stop::Rehearsed(root, migrated))) => {
            return Ok((inner, root, migrated));
        }
        Err(TryError::Aborted(Stop::Fault(Fault::Damaged(at, detail)))) => {
            Error::from(Damage::at(at, detail).of_object(name))
        }
        Err(TryError::Aborted(Stop::Fault(Fault::Circle(at)))) => Error::Circle { object: name, at },
        Err(TryError::Failed(error)) => error,
    };
    G::slot().unbind(bound);
    Err(error)
}
