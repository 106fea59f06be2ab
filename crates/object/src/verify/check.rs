//! The deep check of an open pool, by the tracers of its own types.
//!
//! Threads: nothing may change the pool meanwhile. [`crate::Root::examine`] sees to it by holding
//! all lanes, without one of which no transaction changes anything.

use crate::description::described::Described;
use crate::layout::{FORMAT, HEADER, Header};
use crate::transaction::open_pool::OpenPool;
use crate::verify::deep::guess::name_leaks;
use crate::verify::deep::report::Report;
use crate::verify::deep::types::Types;
use crate::verify::deep::{self, Start};
use crate::{MemPool, PSafe, Schema, Tracer};
use everbyte_media::Offset;
use std::collections::BTreeSet;

/// Checks the pool whose root of type `R` lies at `root` from the base, without the values of the
/// objects `given_up`.
pub(crate) fn examine<R: PSafe<P>, P: MemPool>(
    inner: &OpenPool,
    root: u64,
    given_up: &BTreeSet<u64>,
    progress: &dyn Fn(u64),
) -> Report {
    let (heap, prime) = (inner.undo.heap(), inner.object.prime());
    let header: Header = inner.media().get(prime + HEADER);
    let own = [prime + header.schema, inner.undo.lanes_at()].map(Offset::get);
    let mut report = deep::examine(heap, &own, heap.check(None), progress, |walk, start| {
        let mut tracer = Tracer::new(inner, walk.without(given_up));
        if start == Start::Root {
            tracer.root::<R, P>((prime + HEADER).get(), root);
        }
        tracer.run()
    });
    let described = Described::parse(&Schema::of::<R, P>().text(FORMAT)).unwrap_or_default();
    name_leaks(&mut report, heap, &Types::new(&described).0);
    report
}
