//! The plan of a migration: the stored types, part by part, beside the types of the program that
//! they become.
//!
//! The program's types lead: each is asked to plan itself from the type that the description names
//! at its place ([`crate::PSafe::plan`]), and asks the types it is made of. A derived type takes a
//! line of its own name and version; for any other it asks the type that its `from` names, and so
//! on. A type that no program type takes refuses the migration.
//!
//! A part without a difference, in itself or behind its pointers, is the *same*: its bytes stay as
//! they are.
//!
//! Invariants
//!   PLAN-1  A part's stored type and its type of the program have the same fields, at the places
//!           that the description gives, inside the bytes that it gives, aligned; a part without
//!           parts has the same name and the same bytes.
//!   PLAN-2  Objects that several pointers may share are taken as one type of the program, wherever
//!           they are pointed to, or as containers of the same name and of the same types
//!           ([`are_alike`]): a vector and a heap.
//!   PLAN-3  A derived type of the program takes values of one derived type of the pool, with the
//!           same name and arguments, and all its values, unless a step leads from one to the
//!           other. Names bear no modules: types of one name are numbered.

use super::Moving;
use super::own_types::OwnTypes;
use super::refusal::{Reason, Refusal};
use crate::MemPool;
use crate::description::described::Described;
use crate::description::node_shape::NodeShape;
use crate::description::schema::TypeName;
use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::mem::discriminant;

/// Plans a type from its name in the description.
pub(crate) type PlanOf<P> = fn(&mut Planner<P>, &str) -> Result<PartId, Refusal>;

/// Makes the value of a part at the second address from the stored value at the first.
pub(super) type Build<P> = unsafe fn(*const u8, PartId, &Moving<'_, P>, *mut u8);

/// The `Option` of a type of the program.
#[derive(Clone, Copy)]
pub(super) struct OptionOf {
    /// Its line in a description of a format, where the option and its value are called so.
    pub line: fn(&str, &TypeName, u32) -> String,
    /// Offset of the value in a block at that address, if there is one.
    pub inside: unsafe fn(*const u8) -> Option<*const u8>,
}

/// A part of the plan.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartId(pub(super) usize);

/// The root.
pub(super) const ROOT: PartId = PartId(0);

impl PartId {
    pub(super) fn number(self) -> u64 {
        self.0 as u64
    }
}

/// The stored form of a part, and the parts that it leads to.
pub(crate) enum PartKind {
    /// Bytes without parts.
    Plain,
    /// A struct, a tuple, a wrapper: its fields in the program's order.
    Fields(Vec<(usize, PartId)>),
    /// An enum: the type of its tag; of each variant in the program's order the tag and the fields.
    Variants(String, Vec<(i128, Vec<(usize, PartId)>)>),
    Array(PartId),
    Option(PartId),
    /// Pointers: of one owner, counted, weak; and an array in a block of its own.
    Owned(PartId),
    Counted(PartId),
    Weak(PartId),
    Elements(PartId),
    /// A ring of places in a block of its own.
    Ring(PartId),
    /// A hash map with such entries in a block of its own.
    Table(PartId),
    /// An ordered map with such entries in nodes of a shape.
    Tree(PartId, NodeShape),
    /// Of an older version, and made from that by the program's `Migrate`.
    Older(PartId, Step),
}

/// One step of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub name: &'static str,
    pub from: u32,
    pub to: u32,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {} -> {}", self.name, self.from, self.to)
    }
}

pub(crate) struct Part<P: MemPool> {
    pub kind: PartKind,
    /// Bytes and alignment as it is stored.
    pub stored: (usize, usize),
    /// The stored bytes have the layout of the program's type; blocks that they point to may
    /// differ.
    pub fits: bool,
    /// Neither this part nor a part that it points to differs.
    pub same: bool,
    /// The `Option` of the stored type: known if the program has a type of that layout.
    pub option: Option<OptionOf>,
    /// Bytes of the program's type.
    pub size: usize,
    pub build: Build<P>,
    /// It was planned by its derive.
    pub is_derived: bool,
}

impl<P: MemPool> Part<P> {
    /// A part whose plan is being made.
    pub(super) fn unplanned(kind: PartKind, size: usize, build: Build<P>) -> Part<P> {
        Part { kind, stored: (0, 1), fits: true, same: true, option: None, size, build, is_derived: false }
    }
}

/// Whether two parts of one stored type become the same bytes: they are one, or containers and
/// other types of this crate that hold the same types, by names that they share by design.
pub(super) fn are_alike<P: MemPool>(parts: &[Part<P>], one: PartId, other: PartId) -> bool {
    if one == other {
        return true;
    }
    let [one, other] = [one, other].map(|id| &parts[id.0]);
    let is_one_form = discriminant(&one.kind) == discriminant(&other.kind)
        && (one.stored, one.size, one.fits) == (other.stored, other.size, other.fits);
    if one.is_derived || other.is_derived || !is_one_form {
        return false; // a type that holds itself is a derived one: this ends
    }
    let [mut one, mut other] = [one, other].map(|part| part.kind.parts());
    loop {
        match (one.next(), other.next()) {
            (Some(one), Some(other)) if are_alike(parts, one, other) => {}
            ends => return matches!(ends, (None, None)),
        }
    }
}

/// The answers of a type about itself during planning.
pub(super) struct Planned {
    pub kind: PartKind,
    pub stored: (usize, usize),
    pub fits: bool,
}

/// A plan that is being made; see [`crate::PSafe::plan`].
#[doc(hidden)]
pub struct Planner<P: MemPool> {
    pub(super) described: Described,
    /// The pool's.
    pub(super) format: u32,
    pub(super) parts: Vec<Part<P>>,
    pub(super) known: HashMap<(TypeId, String), PartId>,
    /// PLAN-2: stored names, and their types of the program.
    pub(super) shared: Vec<(String, PartId, &'static str)>,
    /// PLAN-3.
    pub(super) own_types: OwnTypes,
}

/// A plan: its root is the first part.
pub(crate) struct Plan<P: MemPool> {
    parts: Vec<Part<P>>,
}

impl<P: MemPool> Plan<P> {
    pub(super) fn part(&self, id: PartId) -> &Part<P> {
        &self.parts[id.0]
    }

    /// PLAN-2.
    pub(super) fn are_alike(&self, one: PartId, other: PartId) -> bool {
        are_alike(&self.parts, one, other)
    }

    /// The steps that the program's own functions take, with the parts that they make.
    pub(super) fn steps(&self) -> impl Iterator<Item = (PartId, &Step)> {
        let parts = self.parts.iter().enumerate();
        parts.filter_map(|(index, part)| match &part.kind {
            PartKind::Older(_, step) => Some((PartId(index), step)),
            _ => None,
        })
    }
}

impl<P: MemPool> Planner<P> {
    pub(super) fn part(&self, id: PartId) -> &Part<P> {
        &self.parts[id.0]
    }

    /// Marks the parts that are the same: they do not differ and reach no part that differs.
    pub(super) fn finish(mut self) -> Result<Plan<P>, Refusal> {
        let differs = |part: &Part<P>| !part.fits || matches!(part.kind, PartKind::Older(..));
        let mut changed: Vec<bool> = self.parts.iter().map(differs).collect();
        while let Some(next) = (0..changed.len())
            .find(|&index| !changed[index] && self.parts[index].kind.parts().any(|part| changed[part.0]))
        {
            changed[next] = true;
        }
        for (part, changed) in self.parts.iter_mut().zip(&changed) {
            part.same = !changed;
        }
        let no_bytes = |part: &&Part<P>| match part.kind {
            PartKind::Elements(of) | PartKind::Ring(of) => !part.same && self.parts[of.0].stored.0 == 0,
            _ => false,
        };
        match self.parts.iter().find(no_bytes) {
            Some(_) => {
                Err(Reason::differs("a vector or a queue has elements without bytes, which cannot be told apart"))
            }
            None => Ok(Plan { parts: self.parts }),
        }
    }
}

impl PartKind {
    /// Its parts, or the type that it points to.
    fn parts(&self) -> Box<dyn Iterator<Item = PartId> + '_> {
        match self {
            PartKind::Plain => Box::new(std::iter::empty()),
            PartKind::Fields(fields) => Box::new(fields.iter().map(|(_, part)| *part)),
            PartKind::Variants(_, all) => Box::new(all.iter().flat_map(|(_, fields)| fields).map(|(_, part)| *part)),
            PartKind::Array(of) | PartKind::Option(of) | PartKind::Older(of, _) => Box::new(std::iter::once(*of)),
            PartKind::Owned(of) | PartKind::Counted(of) | PartKind::Weak(of) | PartKind::Elements(of) => {
                Box::new(std::iter::once(*of))
            }
            PartKind::Ring(of) | PartKind::Table(of) | PartKind::Tree(of, _) => Box::new(std::iter::once(*of)),
        }
    }
}
