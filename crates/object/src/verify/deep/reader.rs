//! [`Reader`]: walks a pool by its description alone, in the way of the program's own tracers.

use crate::layout::HEADER;
use crate::verify::deep::cpp::CppObjects;
use crate::verify::deep::report::FaultKind;
use crate::verify::deep::types::{Field, Id, Tag, Type, TypeKind, Types, Variant, What};
use crate::verify::deep::walk::{BlockForm, HeapWalk, Owner, Visit};

/// Offset of the value in a counted object.
const COUNTED: u64 = 16;

/// A walk and the types that it needs.
pub(crate) struct Reader<'w> {
    pub walk: HeapWalk<'w, What>,
    pub types: &'w Types<'w>,
    cpp: CppObjects,
}

impl<'w> Reader<'w> {
    pub(crate) fn new(walk: HeapWalk<'w, What>, types: &'w Types<'w>) -> Reader<'w> {
        Reader { walk, types, cpp: CppObjects::default() }
    }

    /// The root, a value of type `root` at `offset` of the pool.
    pub(crate) fn root(&mut self, root: Id, offset: u64) {
        let size = self.types.get(root).size.unwrap_or(0);
        self.walk.pointer(self.walk.place(HEADER), offset, size, Owner::Alone, BlockForm::One, What::Value(root));
    }

    /// Follows everything that the blocks met so far lead to.
    pub(crate) fn run(mut self) -> HeapWalk<'w, What> {
        self.follow();
        self.walk
    }

    /// As [`Reader::run`], of the root; and objects of C++ are read by their classes.
    pub(crate) fn run_all(mut self) -> HeapWalk<'w, What> {
        self.follow();
        self.cpp.check(&mut self.walk);
        self.walk
    }

    fn follow(&mut self) {
        while let Some(visit) = self.walk.next() {
            self.block(visit);
        }
    }

    pub(crate) fn block(&mut self, Visit { at, elements, what }: Visit<What>) {
        match (what, elements) {
            (What::Value(of), None) => self.value(of, at),
            (What::Value(of), Some(elements)) => {
                let size = self.types.get(of).size.expect("a vector of such has elements");
                for index in elements {
                    self.element(of, at, size, index);
                }
            }
            (What::Counted(of), _) => {
                let counts = (self.walk.number(at, 8), self.walk.number(at + 8, 8));
                if self.walk.stored(at, counts) {
                    self.value(of, at + COUNTED);
                }
            }
        }
    }

    fn element(&mut self, of: Id, at: u64, size: u64, index: u64) {
        self.walk.trail.enter_index(index);
        self.value(of, at + index * size);
        self.walk.trail.leave();
    }

    fn value(&mut self, id: Id, at: u64) {
        let of = self.types.get(id);
        if !of.is_worth {
            return;
        }
        match &of.kind {
            TypeKind::Any => {}
            TypeKind::Bool => self.must(self.walk.number(at, 1) < 2, of, at),
            TypeKind::Char => self.must(char::from_u32(self.walk.number(at, 4) as u32).is_some(), of, at),
            TypeKind::NonZero(16) => self.must((self.walk.number(at, 8) | self.walk.number(at + 8, 8)) != 0, of, at),
            TypeKind::NonZero(bytes) => self.must(self.walk.number(at, *bytes) != 0, of, at),
            TypeKind::Nanoseconds => self.must(self.walk.number(at, 4) < 1_000_000_000, of, at),
            TypeKind::Form(form) => {
                let bytes: Vec<u8> =
                    (0..of.size.unwrap_or(0)).map(|index| self.walk.number(at + index, 1) as u8).collect();
                if !form.is_valid(&bytes) {
                    self.walk.fault(FaultKind::Value, at, format!("not a `{}`", form.name()));
                }
            }
            TypeKind::Same(id) => self.value(*id, at),
            TypeKind::Array(id, count) => {
                let size = self.types.get(*id).size.expect("an array of such has a size");
                (0..*count).for_each(|index| self.element(*id, at, size, index));
            }
            TypeKind::Fields(fields) => {
                if let Some(cpp) = self.types.cpp {
                    self.cpp.meet(cpp, id, at, &mut self.walk);
                }
                self.fields(fields, at);
            }
            TypeKind::Variants(tag, variants) => self.variant(of, *tag, variants, at),
            TypeKind::Owned(target) => self.pointer(*target, Owner::Alone, of, at),
            TypeKind::Counted(target, true) => self.pointer(*target, Owner::Strong, of, at),
            TypeKind::Counted(target, false) => self.pointer(*target, Owner::Weak, of, at),
            TypeKind::Vector(target) => self.vector(*target, at),
            TypeKind::Ring(target) => self.ring(*target, at),
            TypeKind::Text => {
                let words = self.words(at);
                self.walk.vector(at, words, 1, BlockForm::Text(words[1]), What::Value(id));
            }
            TypeKind::Table(entry) => {
                let size = self.types.get(*entry).size.expect("an entry has a line");
                self.walk.table(at, size, What::Value(*entry));
            }
            TypeKind::Tree(entry, shape) => self.walk.tree(at, *shape, What::Value(*entry)),
            TypeKind::Opaque => {
                // a block of unknown type
                let rest = || self.walk.heap.size_of(at).unwrap_or(0);
                self.walk.unread(of.name, at, of.size.unwrap_or_else(rest));
            }
        }
    }

    fn fields(&mut self, fields: &'w [Field<'w>], at: u64) {
        for field in fields {
            if field.label.is_empty() {
                self.value(field.of, at + field.at);
            } else {
                self.walk.trail.enter(field.label);
                self.value(field.of, at + field.at);
                self.walk.trail.leave();
            }
        }
    }

    fn variant(&mut self, of: &Type<'_>, tag: Tag, variants: &'w [Variant<'w>], at: u64) {
        match tag.variant(variants, |offset, bytes| self.walk.number(at + offset, bytes)) {
            Some(variant) => self.fields(&variant.fields, at),
            None => {
                let detail = format!("not a variant of `{}`", plain_name(of));
                self.walk.fault(FaultKind::Value, at, detail);
            }
        }
    }

    fn pointer(&mut self, target: Id, owner: Owner, of: &Type<'_>, at: u64) {
        let word = self.walk.number(at, 8);
        if word == 0 {
            return self.must(false, of, at);
        }
        let size = self.types.get(target).size.unwrap_or(0);
        let (size, what) = match owner {
            Owner::Alone => (size, What::Value(target)),
            Owner::Strong | Owner::Weak => (size.saturating_add(COUNTED), What::Counted(target)),
        };
        self.walk.pointer(at, word, size, owner, BlockForm::One, what);
    }

    fn vector(&mut self, of: Id, at: u64) {
        let (words, target) = (self.words(at), self.types.get(of));
        let held = match target.size {
            None => BlockForm::One,
            Some(_) if target.is_worth => BlockForm::Elements(words[1]),
            Some(_) => BlockForm::Elements(0),
        };
        self.walk.vector(at, words, target.size.unwrap_or(1), held, What::Value(of));
    }

    fn ring(&mut self, of: Id, at: u64) {
        let ([block, len, cap], target) = (self.words(at), self.types.get(of));
        let words = [block, len, cap, self.walk.number(at + 24, 8)];
        match target.size {
            // a queue of opaque elements: the block is searched
            None => self.walk.vector(at, [block, len, cap], 1, BlockForm::One, What::Value(of)),
            Some(size) => self.walk.ring(at, words, size, target.is_worth, What::Value(of)),
        }
    }

    fn must(&mut self, holds: bool, of: &Type<'_>, at: u64) {
        if !holds {
            self.walk.fault(FaultKind::Value, at, format!("not a `{}`", plain_name(of)));
        }
    }

    fn words(&self, at: u64) -> [u64; 3] {
        [self.walk.number(at, 8), self.walk.number(at + 8, 8), self.walk.number(at + 16, 8)]
    }
}

/// A type's name without its arguments.
fn plain_name<'d>(of: &Type<'d>) -> &'d str {
    of.name.split(['<', '#']).next().unwrap_or_default()
}
