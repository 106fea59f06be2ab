//! `uuid::Uuid` in a pool as it is: its crate promises the layout of `[u8; 16]`.

use crate::description::forms::Form;
use crate::{MemPool, Niche, PSafe, Schema, Tracer, TypeName};
use uuid::Uuid;

// SAFETY: plain data, 16 bytes of any value ("guaranteed to have the same ABI as `Bytes`").
unsafe impl<P: MemPool> PSafe<P> for Uuid {
    type At<'x> = Uuid;
    type Outside = Uuid;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        Form::Uuid.describe::<Self, P>(schema)
    }

    unsafe fn trace(_: *const Uuid, _: &mut Tracer<'_>) {}
}
