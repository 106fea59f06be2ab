//! [`Trail`]: the way from the root to where a walk is, as a path that a reader of the program's
//! types understands.

use std::fmt::Write;
use std::rc::Rc;

/// A step inside a value.
#[derive(Clone, Copy, Debug)]
enum Step<'t> {
    Field(&'t str),
    Index(u64),
}

/// The step from one block to the next: `.next`, `.list[3]`.
pub(crate) type Label = Option<Rc<str>>;

/// Blocks on the way are kept only if paths will be reported.
#[derive(Debug, Default)]
pub(crate) struct Trail<'t> {
    is_kept: bool,
    blocks: Vec<Rc<str>>,
    /// In the value that is being looked at.
    here: Vec<Step<'t>>,
    /// Paths that were made.
    #[cfg(test)]
    pub(super) made: std::cell::Cell<usize>,
}

/// Steps of one kind in a row that are written out.
const ALIKE: usize = 3;
/// Steps at either end of a path that are written out.
const SHOWN: usize = 24;

impl<'t> Trail<'t> {
    pub(crate) fn new(is_kept: bool) -> Trail<'t> {
        Trail { is_kept, ..Trail::default() }
    }

    pub(crate) fn enter(&mut self, field: &'t str) {
        self.here.push(Step::Field(field));
    }

    pub(crate) fn enter_index(&mut self, index: u64) {
        self.here.push(Step::Index(index));
    }

    pub(crate) fn leave(&mut self) {
        self.here.pop();
    }

    /// How many blocks lie between the root and here.
    pub(crate) fn depth(&self) -> usize {
        self.blocks.len()
    }

    /// The name of a pointer that lies here.
    pub(crate) fn label(&self) -> Label {
        self.is_kept.then(|| {
            let text = self.inside();
            match self.blocks.last() {
                // a list of any length costs a word for each node
                Some(last) if **last == *text => Rc::clone(last),
                _ => text.into(),
            }
        })
    }

    /// Goes to a block that a pointer called `label` leads to from the block at `depth`.
    pub(crate) fn go(&mut self, depth: usize, label: &Label) {
        self.here.clear();
        if let Some(label) = label {
            self.blocks.truncate(depth);
            self.blocks.push(Rc::clone(label));
        }
    }

    pub(super) fn inside(&self) -> String {
        let mut text = String::new();
        for step in &self.here {
            match step {
                Step::Field(name) => _ = write!(text, ".{name}"),
                Step::Index(index) => _ = write!(text, "[{index}]"),
            }
        }
        text
    }

    /// The path of the present value; empty if blocks on the way are not kept.
    pub(crate) fn path_if_kept(&self) -> String {
        if self.is_kept { self.path() } else { String::new() }
    }

    /// The path of the present value: `root.next.val[3]`. Rows of like steps are counted, and of a
    /// long way the middle is left out.
    pub(crate) fn path(&self) -> String {
        #[cfg(test)]
        self.made.set(self.made.get() + 1);
        let mut steps: Vec<String> = Vec::new();
        for alike in self.blocks.chunk_by(|one, other| one == other).filter(|alike| !alike[0].is_empty()) {
            match alike {
                [step, ..] if alike.len() > ALIKE => steps.push(format!("({step}){{{}}}", alike.len())),
                _ => steps.extend(alike.iter().map(|step| step.to_string())),
            }
        }
        let left_out = steps.len().saturating_sub(2 * SHOWN);
        if left_out > 0 {
            steps.splice(SHOWN..SHOWN + left_out, [format!("..({left_out} more)..")]);
        }
        format!("root{}{}", steps.concat(), self.inside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows pointers that are called as `labels` say.
    fn walked(labels: &[&'static str]) -> String {
        let mut trail = Trail::new(true);
        trail.go(0, &Some("".into()));
        for label in labels {
            trail.enter(label);
            let (depth, label) = (trail.depth(), trail.label());
            trail.go(depth, &label);
        }
        trail.enter("val");
        trail.enter_index(3);
        trail.path()
    }

    #[test]
    fn a_path_reads_as_the_program_does() {
        assert_eq!(walked(&[]), "root.val[3]");
        assert_eq!(walked(&["next", "next", "data"]), "root.next.next.data.val[3]");
    }

    #[test]
    fn long_ways_are_short_paths() {
        assert_eq!(walked(&["next"; 1000]), "root(.next){1000}.val[3]");
        let ways = [["left", "right"]; 1000].concat();
        let path = walked(&ways);
        assert!(path.starts_with("root.left.right.left") && path.ends_with(".right.val[3]"), "{path}");
        assert!(path.contains("..(1952 more)..") && path.len() < 600, "{path}");
    }
}
