//! Descriptions of types of the program: each adds itself to a [`Schema`].

use crate::description::derived::{Derived, Field, Parts};
use crate::description::described;
use crate::description::schema::{Schema, Shape, TypeName};
use crate::{MemPool, PSafe};
use std::any::TypeId;

impl Schema {
    /// The description of a root type.
    pub(crate) fn of<R: PSafe<P>, P: MemPool>() -> Schema {
        let mut schema = Schema::default();
        let root = R::describe(&mut schema);
        schema.types.insert(0, (format!("root {root}"), None));
        schema
    }

    /// Adds type `T` under `name`, unless it is there; `shape` describes its fields. Answers the
    /// name it got.
    pub fn define<T: PSafe<P>, P: MemPool>(
        &mut self,
        name: TypeName,
        shape: impl FnOnce(&mut Schema) -> Shape,
    ) -> TypeName {
        let id = TypeId::of::<T::At<'static>>(); // types of two blocks can have one name
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let is_like =
            |other: &str| other.strip_prefix(&*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'));
        let taken = self.types.iter().filter(|(other, _)| is_like(other)).count();
        let name = if taken == 0 { name } else { TypeName(format!("{name}#{}", taken + 1)) };
        self.known.insert(id, name.clone());
        let index = self.types.len();
        self.types.push((name.0.clone(), None));
        self.types[index].1 = Some(shape(self));
        name
    }

    /// Adds a type that was derived.
    #[doc(hidden)]
    pub fn derived<T: Derived<P>, P: MemPool>(&mut self) -> TypeName {
        // a line feed, as a constant can be, would end the line
        let arguments: Vec<String> = T::arguments(self).into_iter().map(|of| of.replace('\n', "\\n")).collect();
        let name = match arguments.is_empty() {
            true => T::NAME.into(),
            false => format!("{}<{}>", T::NAME, arguments.join(", ")),
        };
        // a name that has a meaning of its own
        let other = if described::is_own(T::NAME) { "#2" } else { "" };
        self.define::<T, P>(TypeName(name + other), |schema| {
            let mut shape = Shape::of::<T>();
            shape.version = T::VERSION;
            let mut add = |shape: Shape, prefix: &str, field: &Field<P>| {
                let of = (field.describe)(schema);
                shape.field(&format!("{prefix}{}", field.label), &of, field.offset)
            };
            match T::parts() {
                Parts::Fields(fields) => fields.iter().fold(shape, |shape, field| add(shape, "", field)),
                Parts::Variants(tag, variants) => {
                    shape.tag = Some(tag.into());
                    for variant in variants {
                        shape.fields.push(format!("{} = {}", variant.name, variant.tag));
                        let prefix = format!("{}.", variant.name);
                        shape = variant.fields.iter().fold(shape, |shape, field| add(shape, &prefix, field));
                    }
                    shape
                }
            }
        })
    }

    /// Adds the map `M` called `kind`, and its entries; `parts` gets the map's name and adds
    /// further parts.
    pub(crate) fn map<M: PSafe<P>, K: PSafe<P>, V: PSafe<P>, P: MemPool>(
        &mut self,
        kind: &str,
        parts: impl FnOnce(&mut Schema, &str),
    ) -> TypeName {
        let (key, value) = (K::describe(self), V::describe(self));
        let name = format!("{kind}<{key}, {value}>");
        self.define::<M, P>(TypeName(name.clone()), |schema| {
            schema.part(format!("{name}::Entry"), Shape::of_entry::<K, V>(&key, &value));
            parts(schema, &name);
            Shape::opaque::<M>()
        })
    }

    /// A word that points to a `T`.
    pub(crate) fn pointer<T: PSafe<P>, P: MemPool>(&mut self, kind: &str) -> TypeName {
        format!("{kind}<{}>", T::describe(self)).into()
    }

    /// A type that is its value.
    pub(crate) fn wrapper<T: PSafe<P>, P: MemPool>(&mut self, kind: &str) -> TypeName {
        format!("{kind}<{}>", T::describe(self)).into()
    }
}
