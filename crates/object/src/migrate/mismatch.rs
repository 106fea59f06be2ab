//! The error of opening a pool whose description is not the program's.

use super::plan::Plan;
use crate::description::described::{Described, difference};
use crate::{Error, MemPool, PSafe};
use everbyte_media::Offset;

/// A pool as its description gives it.
pub(crate) struct Stored<'s> {
    /// The name of the pool.
    pub object: &'s str,
    pub description: &'s str,
    /// The store offset of the description.
    pub description_at: Offset,
    pub format: u32,
}

/// The error of a plain opening of a pool whose description is not the program's.
pub(crate) fn mismatch<R: PSafe<P>, P: MemPool>(stored: &Stored<'_>, wanted: &str) -> Error {
    let object = stored.object.to_string();
    match Described::parse(stored.description).map(|described| Plan::<P>::of::<R>(described, stored.format)) {
        Some(Ok(plan)) => {
            let steps: Vec<String> = plan.steps().map(|(_, step)| step.to_string()).collect();
            let steps = match steps.is_empty() {
                // volatile cells of another size (PLAN-3)
                true => difference(stored.description, wanted),
                false => steps.join(", "),
            };
            return Error::OlderVersion { object, steps };
        }
        Some(Err(refusal)) => {
            let error = refusal.error(&object, stored.description_at.get());
            if matches!(error, Error::NewerVersion { .. }) {
                return error;
            }
        }
        None => {}
    }
    Error::WrongType { object, difference: difference(stored.description, wanted) }
}
