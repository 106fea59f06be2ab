//! Which derived types of the program take the values of which derived types of the pool (PLAN-3).

use super::refusal::{Reason, Refusal, base};
use std::any::TypeId;

/// A derived type of the program that takes values of its own version.
struct Taken {
    /// The pool's name of the type.
    stored: String,
    /// The program's.
    wanted: String,
    own: TypeId,
}

/// Types and parts that a plan has taken so far.
#[derive(Default)]
pub(super) struct OwnTypes {
    taken: Vec<Taken>,
    /// The steps by the program's functions: names without arguments, of the pool and of the
    /// program.
    steps: Vec<(String, &'static str)>,
}

impl OwnTypes {
    /// Values that the pool calls `stored` are those of the type `own`, which the program calls
    /// `wanted`.
    pub(super) fn take(&mut self, stored: &str, wanted: String, own: TypeId) {
        self.taken.push(Taken { stored: stored.into(), wanted, own });
    }

    /// Values that the pool calls `stored` become those of a type called `to`.
    pub(super) fn step(&mut self, stored: &str, to: &'static str) {
        self.steps.push((base(stored).into(), to));
    }

    /// PLAN-3.
    ///
    /// # Errors
    /// The types of which one would become the other without a step.
    pub(super) fn require(&self) -> Result<(), Refusal> {
        for (index, taken) in self.taken.iter().enumerate() {
            let Taken { stored, wanted, own } = taken;
            if self.plain(stored, true) != self.plain(wanted, true) {
                return Err(Reason::differs(format!("`{stored}` in the pool is `{wanted}` in the program")));
            }
            for other in &self.taken[..index] {
                let is_alike = self.plain(stored, false) == self.plain(&other.stored, false);
                if other.own == *own && other.stored != *stored && is_alike {
                    let names = [&*other.stored, stored].map(|name| format!("`{name}`")).join(" and ");
                    return Err(Reason::differs(format!(
                        "two types of the pool, {names}, are one in the program, `{wanted}`"
                    )));
                }
                if other.own != *own && other.stored == *stored && self.steps.is_empty() {
                    return Err(Reason::differs(format!(
                        "one type of the pool, `{stored}`, is two in the program, both called `{wanted}`"
                    )));
                }
            }
        }
        Ok(())
    }

    /// A name without the numbers of types of one name and without sizes of volatile cells;
    /// `renamed`: with types called as they are after all steps.
    fn plain(&self, name: &str, renamed: bool) -> String {
        let (mut plain, mut rest) = (String::new(), name);
        while let Some(first) = rest.chars().next() {
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            let len = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()).max(first.len_utf8());
            let (word, behind) = rest.split_at(len);
            rest = behind;
            if word == "#" {
                rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
                continue;
            }
            let step = self.steps.iter().find(|(stored, _)| renamed && stored == word);
            plain += step.map_or(word, |(_, to)| to);
            if word == "VCell" && rest.starts_with('<') {
                rest = rest.find('>').map_or("", |end| &rest[end + 1..]);
            }
        }
        plain
    }
}
