//! Planning by each form of type: the requirements on the description at its place.

use super::moving::Moving;
use super::plan::{Build, OptionOf, Part, PartId, PartKind, Plan, Planned, Planner, Step, are_alike};
use super::refusal::{Reason, Refusal, base};
use crate::description::derived::{Derived, Field, Parts, tag_size};
use crate::description::described::{Described, FieldPlace, Line, bare, missing, tagged};
use crate::description::niche::Tag;
use crate::description::node_shape::NodeShape;
use crate::description::schema::{Schema, Shape, TypeName};
use crate::types::entry::MapEntry;
use crate::{MemPool, PSafe};
use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::mem::offset_of;

/// Fields of a part: their stored offsets, and the parts that they become.
type Fields = Vec<(usize, PartId)>;

/// `T` of `Name<T>`. The name of a container, which has a line, may bear a number: callers take
/// that off ([`bare`]).
fn argument<'s>(stored: &'s str, name: &str) -> Option<&'s str> {
    stored.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>')
}

unsafe fn build<T: PSafe<P>, P: MemPool>(from: *const u8, part: PartId, moving: &Moving<'_, P>, to: *mut u8) {
    const { assert!(align_of::<T>() <= 16, "types of a pool are aligned to 16 bytes at most") };
    // SAFETY: the caller's.
    let value = unsafe { moving.read::<T>(from, part) };
    // SAFETY: the caller's.
    unsafe { to.cast::<T>().write(value) };
}

fn option_line<T: PSafe<P>, P: MemPool>(name: &str, value: &TypeName, format: u32) -> String {
    Shape::of_option::<Option<T>>(const { Tag::of::<T>(T::NICHE) }, value).line(name, format)
}

unsafe fn inside<T>(option: *const u8) -> Option<*const u8> {
    // SAFETY: the caller has planned an `Option<T>` here, whose bytes are believed.
    unsafe { &*option.cast::<Option<T>>() }.as_ref().map(|value| (&raw const *value).cast())
}

impl<P: MemPool> Plan<P> {
    /// The plan that makes an `R` of the described root.
    ///
    /// # Errors
    /// The reason if there is no plan.
    pub(super) fn of<R: PSafe<P>>(described: Described, format: u32) -> Result<Plan<P>, Refusal> {
        let root = described.root.clone();
        let (parts, known, shared, own_types) = Default::default();
        let mut planner = Planner { described, format, parts, known, shared, own_types };
        R::plan(&mut planner, &root)?;
        planner.require_shared()?;
        planner.own_types.require()?;
        planner.finish()
    }
}

impl<P: MemPool> Planner<P> {
    /// The part that makes a `T` of the stored type `stored`, planned once.
    pub(super) fn add<T: PSafe<P>>(
        &mut self,
        stored: &str,
        plan: impl FnOnce(&mut Self) -> Result<Planned, Refusal>,
    ) -> Result<PartId, Refusal> {
        let key = (TypeId::of::<T::At<'static>>(), stored.to_string());
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let id = PartId(self.parts.len());
        self.known.insert(key, id);
        // Only a pointer asks for the part meanwhile, and it does not look into it.
        let (kind, build) = (PartKind::Plain, build::<T, P> as Build<P>);
        let size = size_of::<T>();
        self.parts.push(Part::unplanned(kind, size, build));
        let Planned { kind, stored, fits } = plan(self)?;
        let option = match &kind {
            PartKind::Older(of, _) => self.parts[of.0].option,
            _ => fits.then_some(OptionOf { line: option_line::<T, P>, inside: inside::<T> }),
        };
        let part = &mut self.parts[id.0];
        (part.kind, part.stored, part.fits, part.option) = (kind, stored, fits, option);
        Ok(id)
    }

    /// The name of `T`, and the lines that describe it.
    fn describe<T: PSafe<P>>(&self) -> (String, String) {
        let mut schema = Schema::default();
        let name = T::describe(&mut schema).to_string();
        (name, schema.text(self.format))
    }

    /// The program's line of `T`.
    fn own_line<T: PSafe<P>>(&self) -> String {
        let (name, text) = self.describe::<T>();
        let own = Described::parse(&format!("root {name}\n{text}"));
        own.and_then(|own| own.line(&name).map(|line| line.text.clone())).unwrap_or(name)
    }

    /// At this place lies something else than a `T`.
    fn another<T: PSafe<P>>(&self, stored: &str) -> Refusal {
        let (name, text) = self.describe::<T>();
        if name != stored {
            return Reason::another(stored, name);
        }
        let lines: Vec<&str> = text.lines().collect();
        Reason::differs(format!("the inside of `{stored}` is another in the pool; in the program it is {lines:?}"))
    }

    /// A `T` whose bytes and description are the same.
    pub(crate) fn whole<T: PSafe<P>>(&mut self, stored: &str) -> Result<PartId, Refusal> {
        self.add::<T>(stored, |planner| {
            let (name, text) = planner.describe::<T>();
            let line = planner.described.line(stored);
            let found = line.is_some();
            let is_same = (name == stored || name == bare(stored) && line.is_some_and(Line::is_opaque))
                && text.lines().all(|line| planner.described.says(line))
                && found == text.lines().any(|line| line.starts_with(&format!("{name} ")));
            match is_same {
                true => Ok(Planned { kind: PartKind::Plain, stored: (size_of::<T>(), align_of::<T>()), fits: true }),
                false => Err(planner.another::<T>(stored)),
            }
        })
    }

    /// A `W` that is its value of type `T`, called `name`.
    pub(crate) fn wrapper<W: PSafe<P>, T: PSafe<P>>(&mut self, stored: &str, name: &str) -> Result<PartId, Refusal> {
        self.add::<W>(stored, |planner| {
            let of = argument(stored, name).ok_or_else(|| planner.another::<W>(stored))?;
            let of = T::plan(planner, of)?;
            let part = planner.part(of);
            Ok(Planned { kind: PartKind::Fields(vec![(0, of)]), stored: part.stored, fits: part.fits })
        })
    }

    /// A pointer `W` to a `T`, called `name`.
    pub(crate) fn pointer<W: PSafe<P>, T: PSafe<P>>(
        &mut self,
        stored: &str,
        name: &str,
        kind: fn(PartId) -> PartKind,
    ) -> Result<PartId, Refusal> {
        self.add::<W>(stored, |planner| {
            let no_line = planner.described.line(stored).is_none();
            let of = argument(stored, name).filter(|_| no_line).ok_or_else(|| planner.another::<W>(stored))?;
            let part = T::plan(planner, of)?;
            if matches!(kind(part), PartKind::Counted(_) | PartKind::Weak(_)) {
                planner.shared.push((of.into(), part, type_name::<T>()));
            }
            Ok(Planned { kind: kind(part), stored: (8, 8), fits: true })
        })
    }

    /// PLAN-2, once all is planned.
    fn require_shared(&self) -> Result<(), Refusal> {
        let mut firsts = HashMap::new();
        for (stored, part, taken) in &self.shared {
            let (first, as_first) = *firsts.entry(stored).or_insert((*part, *taken));
            if !are_alike(&self.parts, first, *part) {
                return Err(Reason::differs(format!(
                    "shared objects `{stored}` are `{}` here and `{}` there",
                    base(as_first),
                    base(taken)
                )));
            }
        }
        Ok(())
    }

    /// Whether `stored` has the line of a container of this crate with these words.
    fn is_container(&self, stored: &str, words: (usize, usize)) -> bool {
        self.described.line(stored).is_some_and(|line| (line.size, line.align) == words && line.is_opaque())
    }

    /// A vector or a queue `W` of `T`s, called `name`.
    pub(crate) fn elements<W: PSafe<P>, T: PSafe<P>>(
        &mut self,
        stored: &str,
        name: &str,
        kind: fn(PartId) -> PartKind,
    ) -> Result<PartId, Refusal> {
        self.add::<W>(stored, |planner| {
            let words = (size_of::<W>(), align_of::<W>());
            let is_it = planner.is_container(stored, words);
            let of = argument(bare(stored), name).filter(|_| is_it).ok_or_else(|| planner.another::<W>(stored))?;
            Ok(Planned { kind: kind(T::plan(planner, of)?), stored: words, fits: true })
        })
    }

    /// A map `M` called `name` of `K`s and `V`s; `shape`: the nodes of an ordered one.
    pub(crate) fn map<M: PSafe<P>, K: PSafe<P>, V: PSafe<P>>(
        &mut self,
        stored: &str,
        name: &str,
        shape: Option<NodeShape>,
    ) -> Result<PartId, Refusal> {
        let entries = format!("{}::Entry", bare(stored));
        if self.described.line(&entries).is_none() {
            return self.whole::<M>(stored); // formats 1 and 2 did not describe entries
        }
        self.add::<M>(stored, |planner| {
            let words = (size_of::<M>(), align_of::<M>());
            let is_map = planner.is_container(stored, words) && argument(bare(stored), name).is_some();
            let entry = planner.described.line(&entries).filter(|_| is_map).cloned();
            let entry = entry.ok_or_else(|| planner.another::<M>(stored))?;
            let of = planner.entry::<K, V>(&entry)?;
            let Some(shape) = shape else {
                return Ok(Planned { kind: PartKind::Table(of), stored: words, fits: true });
            };
            let found = NodeShape::described(&planner.described, stored);
            let found = found.ok_or_else(|| planner.another::<M>(stored))?;
            Ok(Planned { kind: PartKind::Tree(of, found), stored: words, fits: found == shape })
        })
    }

    /// The entries of a map, which the map reads and builds itself.
    fn entry<K: PSafe<P>, V: PSafe<P>>(&mut self, line: &Line) -> Result<PartId, Refusal> {
        unsafe fn never<P: MemPool>(_: *const u8, _: PartId, _: &Moving<'_, P>, _: *mut u8) {
            unreachable!("entries are built by their map")
        }
        let key = (TypeId::of::<MapEntry<K::At<'static>, V::At<'static>>>(), line.name.clone());
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let id = PartId(self.parts.len());
        self.known.insert(key, id);
        let own = (size_of::<MapEntry<K, V>>(), align_of::<MapEntry<K, V>>());
        let (kind, build) = (PartKind::Plain, never::<P> as Build<P>);
        self.parts.push(Part::unplanned(kind, own.0, build));
        let fields = [Field::new::<K>("key", 0), Field::new::<V>("value", offset_of!(MapEntry<K, V>, value))];
        let (fields, fits) = self.fields(line, "", &fields)?;
        let part = &mut self.parts[id.0];
        part.stored = (line.size, line.align);
        (part.kind, part.fits) = (PartKind::Fields(fields), fits && part.stored == own);
        Ok(id)
    }

    /// An `Option<T>`.
    pub(crate) fn option<T: PSafe<P>>(&mut self, stored: &str) -> Result<PartId, Refusal> {
        self.add::<Option<T>>(stored, |planner| {
            let found = argument(bare(stored), "Option").zip(planner.described.line(stored).cloned());
            let (inner, line) = found.ok_or_else(|| planner.another::<Option<T>>(stored))?;
            let of = T::plan(planner, inner)?;
            let (value, format) = (inner.into(), planner.format);
            let part = planner.part(of);
            match part.option {
                Some(option) if (option.line)(stored, &value, format) == line.text => {
                    Ok(Planned { kind: PartKind::Option(of), stored: (line.size, line.align), fits: part.fits })
                }
                Some(option) => Err(Reason::another(line.text, (option.line)(stored, &value, format))),
                None => Err(Reason::differs(format!(
                    "`{stored}` holds by value what has changed, and no type of the program lies as it did: give the type \
                     that holds it a version, too"
                ))),
            }
        })
    }

    /// A `[T; N]`.
    pub(crate) fn array<T: PSafe<P>, const N: usize>(&mut self, stored: &str) -> Result<PartId, Refusal> {
        self.add::<[T; N]>(stored, |planner| {
            let of = stored.strip_prefix('[').and_then(|stored| stored.strip_suffix(&format!("; {N}]")));
            let of = T::plan(planner, of.ok_or_else(|| planner.another::<[T; N]>(stored))?)?;
            let part = planner.part(of);
            let (size, align) = part.stored;
            let size = size.checked_mul(N).ok_or_else(|| Reason::damaged(format!("`{stored}` is too large")))?;
            Ok(Planned { kind: PartKind::Array(of), stored: (size, align), fits: part.fits })
        })
    }

    /// A tuple, or a struct of std whose name begins like that.
    pub(crate) fn of_fields<T: PSafe<P>>(
        &mut self,
        stored: &str,
        name: &str,
        fields: &[Field<P>],
    ) -> Result<PartId, Refusal> {
        self.add::<T>(stored, |planner| {
            let line = planner.described.line(stored).filter(|_| stored.starts_with(name)).cloned();
            let line = line.ok_or_else(|| planner.another::<T>(stored))?;
            let (fields, fits) = planner.fields(&line, "", fields)?;
            Ok(of_line::<T>(&line, PartKind::Fields(fields), fits))
        })
    }

    /// A cell, whose value ends with the opening of the pool.
    pub(crate) fn volatile<T: PSafe<P>>(&mut self, stored: &str) -> Result<PartId, Refusal> {
        self.add::<T>(stored, |planner| {
            let words = argument(stored, "VCell").and_then(|words| words.split_once(' '));
            let numbers = words.and_then(|(size, align)| Some((size.parse().ok()?, align.parse().ok()?)));
            let (size, align): (usize, usize) = numbers.ok_or_else(|| planner.another::<T>(stored))?;
            let end = 8usize.checked_next_multiple_of(align).and_then(|at| at.checked_add(size));
            let align = align.max(8);
            let size = end.and_then(|end| end.checked_next_multiple_of(align)).filter(|_| align.is_power_of_two());
            let size = size.ok_or_else(|| Reason::damaged(format!("there is no `{stored}`")))?;
            let fits = (size, align) == (size_of::<T>(), align_of::<T>());
            Ok(Planned { kind: PartKind::Plain, stored: (size, align), fits })
        })
    }

    /// A derived type: its own version is planned by its fields, an older version by the type
    /// that it is made from.
    #[doc(hidden)]
    pub fn derived<T: Derived<P>>(&mut self, stored: &str) -> Result<PartId, Refusal> {
        let part = self.add::<T>(stored, |planner| {
            let line = planner.described.line(stored).cloned().ok_or_else(|| planner.another::<T>(stored))?;
            if (base(&line.name), line.version) == (T::NAME, T::VERSION) {
                let wanted = planner.describe::<T>().0;
                planner.own_types.take(stored, wanted, TypeId::of::<T::At<'static>>());
                return planner.of_this_version::<T>(&line);
            }
            let Some(older) = T::older() else { return Err(planner.unknown::<T>(line)) };
            let of = (older.plan)(planner, stored).map_err(|refusal| planner.newer::<T>(refusal, line))?;
            let step = Step { name: T::NAME, from: older.version, to: T::VERSION };
            planner.own_types.step(stored, T::NAME);
            Ok(Planned { kind: PartKind::Older(of, step), stored: planner.part(of).stored, fits: false })
        })?;
        self.parts[part.0].is_derived = true;
        Ok(part)
    }

    /// `T` is the last of the types that could have been of this version.
    fn unknown<T: Derived<P>>(&self, line: Line) -> Refusal {
        match base(&line.name) == T::NAME {
            true => {
                let (versions, wanted) = (vec![T::VERSION], self.own_line::<T>());
                Refusal(Box::new(Reason::Version { found: line, versions, wanted }))
            }
            false => self.another::<T>(&line.name),
        }
    }

    /// `T` is made from a type that could not be that of `line` either.
    fn newer<T: Derived<P>>(&self, mut refusal: Refusal, line: Line) -> Refusal {
        match &mut *refusal.0 {
            Reason::Version { found, versions, wanted } if found.name == line.name => {
                versions.push(T::VERSION);
                *wanted = self.own_line::<T>();
                refusal
            }
            Reason::Another { found, .. } if *found == line.name => self.unknown::<T>(line),
            _ => refusal,
        }
    }

    fn of_this_version<T: Derived<P>>(&mut self, line: &Line) -> Result<Planned, Refusal> {
        match T::parts() {
            Parts::Fields(fields) if line.tag.is_none() => {
                let (fields, fits) = self.fields(line, "", &fields)?;
                Ok(of_line::<T>(line, PartKind::Fields(fields), fits))
            }
            Parts::Variants(tag, variants) if line.tag.as_deref() == Some(tag) => {
                let tags: Vec<_> = variants.iter().map(|one| (one.name.to_string(), Some(one.tag))).collect();
                if let Some(different) = differing_tags(line, &tags) {
                    return Err(Reason::differs(different));
                }
                has_room(line, 0, (tag_size(tag), tag_size(tag)))?;
                let (mut all, mut fit) = (Vec::new(), true);
                for variant in &variants {
                    let (fields, fits) = self.fields(line, &format!("{}.", variant.name), &variant.fields)?;
                    all.push((variant.tag, fields));
                    fit &= fits;
                }
                Ok(of_line::<T>(line, PartKind::Variants(tag.into(), all), fit))
            }
            _ => Err(self.another::<T>(&line.name)),
        }
    }

    /// PLAN-1 for the fields of `line` whose labels begin with `prefix`. Answers also whether they
    /// lie as in the program.
    fn fields(&mut self, line: &Line, prefix: &str, fields: &[Field<P>]) -> Result<(Fields, bool), Refusal> {
        let name = match line.version {
            1 => line.name.clone(),
            version => format!("{} v{version}", line.name),
        };
        let is_here = |place: &&FieldPlace| place.label.strip_prefix(prefix).is_some_and(|label| !label.contains('.'));
        let places: Vec<&FieldPlace> = line.fields.iter().filter(is_here).collect();
        let found: Vec<&str> = places.iter().map(|place| place.label.as_str()).collect();
        let labels: Vec<String> = fields.iter().map(|field| format!("{prefix}{}", field.label)).collect();
        let wanted: Vec<&str> = labels.iter().map(String::as_str).collect();
        if found != wanted {
            let order =
                || format!("fields of `{name}` are in the order {found:?} in the pool, {wanted:?} in the program");
            return Err(Reason::differs(missing(&name, "field", &found, &wanted).unwrap_or_else(order)));
        }
        let (mut all, mut fit) = (Vec::new(), true);
        for (place, field) in places.into_iter().zip(fields) {
            let part = (field.plan)(self, &place.of).map_err(|refusal| {
                let wanted = (field.describe)(&mut Schema::default());
                refusal.at_field(&format!("field `{}` of `{name}`", place.label), &place.of, &wanted)
            })?;
            has_room(line, place.offset, self.part(part).stored)?;
            fit &= place.offset == field.offset && self.part(part).fits;
            all.push((place.offset, part));
        }
        Ok((all, fit))
    }
}

/// Whether a part of that size and alignment lies whole and aligned in the type of `line`.
fn has_room(line: &Line, offset: usize, (size, align): (usize, usize)) -> Result<(), Refusal> {
    let is_inside = offset.checked_add(size).is_some_and(|end| end <= line.size);
    let is_aligned = [offset, line.align].iter().all(|number| number.is_multiple_of(align));
    match is_inside && is_aligned && line.size.is_multiple_of(line.align) {
        true => Ok(()),
        false => Err(Reason::damaged(format!("there is no room for what lies at {offset} in `{}`", line.text))),
    }
}

/// A part that is stored as `line` says.
fn of_line<T>(line: &Line, kind: PartKind, fits: bool) -> Planned {
    let stored = (line.size, line.align);
    Planned { kind, stored, fits: fits && stored == (size_of::<T>(), align_of::<T>()) }
}

fn differing_tags(line: &Line, tags: &[(String, Option<i128>)]) -> Option<String> {
    let all = |tags: &[_]| tags.iter().map(tagged).collect::<Vec<_>>().join(", ");
    let differs = || {
        let (found, wanted) = (all(&line.variants), all(tags));
        format!("variants of `{}` are `{found}` in the pool and `{wanted}` in the program", line.name)
    };
    (line.variants != tags).then(differs)
}
