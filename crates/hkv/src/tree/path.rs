//! The path from the topmost node to a leaf, and the bounds of its nodes.

use super::node::Node;
use super::view::View;
use super::{Tree, TreeState};
use crate::Result;
use crate::record::Record;

/// The goal of a path.
#[derive(Clone, Copy)]
pub(super) enum Goal<'k> {
    /// The leaf of this key.
    At(&'k [u8]),
    /// The leaf of the greatest key that is less.
    Before(&'k [u8]),
    /// The last leaf.
    Last,
}

/// One node of the path.
pub(super) struct Step {
    pub node: Node,
    /// The child of the next step; in a leaf, the number of its keys less than the goal.
    pub index: usize,
}

/// Steps from the topmost node, which comes first, to a leaf.
pub(super) struct Path(pub Vec<Step>);

impl Tree {
    pub(super) fn path(&self, state: &TreeState, goal: Goal<'_>) -> Result<Path> {
        let mut view = View::of(&self.base, state.top, None)?;
        let mut steps = Vec::with_capacity(view.level as usize + 1);
        loop {
            let node = view.read()?;
            let is_leaf = node.level() == 0;
            let index = match goal {
                Goal::At(key) if !is_leaf => view.child_of(key)?,
                Goal::At(key) | Goal::Before(key) => view.rank(key)?.0 - usize::from(!is_leaf),
                Goal::Last => node.count() - usize::from(!is_leaf),
            };
            steps.push(Step { node, index });
            if is_leaf {
                return Ok(Path(steps));
            }
            view = view.child(index)?;
        }
    }

    /// The key of the record at `at`; `None` if that is 0.
    pub(super) fn bound(&self, at: u64) -> Result<Option<Vec<u8>>> {
        if at == 0 {
            return Ok(None);
        }
        Ok(Some(Record::read(self.heap(), at)?.key(self.heap())))
    }

    /// The upper bound of the keys of the node at `depth`, or of the `beyond`-th one after it below
    /// the same parent.
    pub(super) fn high(&self, path: &Path, depth: usize, beyond: usize) -> Result<Option<Vec<u8>>> {
        let mut beyond = beyond + 1;
        for step in path.0[..depth].iter().rev() {
            if step.index + beyond < step.node.count() {
                return Ok(Some(step.node.record(&self.base, step.index + beyond)?.key(self.heap())));
            }
            beyond = 1;
        }
        Ok(None)
    }
}

impl Path {
    pub(super) fn leaf(&self) -> &Step {
        self.0.last().expect("a way ends at a leaf")
    }
}
