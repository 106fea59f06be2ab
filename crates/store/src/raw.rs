//! The way from a store's face to the store: for crates that change its bytes by themselves.
//!
//! A [`Store`] hands out its media, and an [`crate::Object`] its clusters, by safe functions: the
//! crates above are built on them without unsafe code. A program that holds typed references into a
//! pool must not call these functions: a store to the bytes of a value is undefined behaviour. The
//! crate `everbyte` therefore has a store and an object of its own, without them, which implement
//! these traits, and does not export the traits.

use crate::{Object, Store};
use std::sync::Arc;

/// Leads to a [`Store`].
pub trait AsStore {
    /// The store.
    fn as_store(&self) -> &Store;
}

impl AsStore for Store {
    fn as_store(&self) -> &Store {
        self
    }
}

impl<S: AsStore + ?Sized> AsStore for &S {
    fn as_store(&self) -> &Store {
        (**self).as_store()
    }
}

impl<S: AsStore + ?Sized> AsStore for Arc<S> {
    fn as_store(&self) -> &Store {
        (**self).as_store()
    }
}

/// Leads to an [`Object`].
pub trait IntoObject {
    /// The object.
    fn into_object(self) -> Object;
}

impl IntoObject for Object {
    fn into_object(self) -> Object {
        self
    }
}
