//! Files of one crate that import each other in a circle: at most five.
//!
//! Each file of such a group can be understood only together with all others, so a larger group is
//! one module in several files.

use super::{Ceiling, Tree, ceilings, imports};
use std::collections::BTreeSet;

pub(super) fn check(tree: &Tree) -> Vec<Ceiling> {
    let mut places = Vec::new();
    for root in roots(tree) {
        let imports = imports::read(tree, &root);
        for group in groups(&imports.edges) {
            if group.len() > ceilings::CIRCLE_FILES {
                let files: Vec<&str> = group.iter().map(|&file| imports.files[file].as_str()).collect();
                places.push(format!(
                    "{root}: {} files import each other in a circle: {}",
                    group.len(),
                    files.join(", ")
                ));
            }
        }
    }
    vec![Ceiling { rule: "circles", what: "circles of too many files", max: ceilings::CIRCLES, places }]
}

fn roots(tree: &Tree) -> Vec<String> {
    let sources = tree.texts(".rs").map(|text| &text.path);
    let roots = sources.filter(|path| {
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        let source = folder == "xtask/src"
            || (folder.starts_with("crates/") && folder.ends_with("/src") && folder.split('/').count() == 3);
        source && ["lib.rs", "main.rs"].contains(&name)
    });
    roots.cloned().collect()
}

/// Sets of files of which each reaches each other, of two or more.
fn groups(edges: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..edges.len()).map(|file| reach(edges, file)).collect();
    let group = |file: usize| -> BTreeSet<usize> {
        reached[file].iter().copied().filter(|&other| reached[other].contains(&file)).collect()
    };
    let groups: BTreeSet<BTreeSet<usize>> = (0..edges.len()).map(group).filter(|group| group.len() > 1).collect();
    groups.into_iter().collect()
}

fn reach(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(edges[file].iter().filter(|&&to| reached.insert(to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree_of;

    #[test]
    fn a_group_reaches_itself_both_ways() {
        let edges = [vec![1], vec![2], vec![0, 3], vec![4], vec![]].map(|to| to.into_iter().collect());
        assert_eq!(groups(&edges), [BTreeSet::from([0, 1, 2])]);
    }

    #[test]
    fn a_circle_of_many_files_is_found() {
        let count = ceilings::CIRCLE_FILES + 1;
        let lib: String = (0..count).map(|n| format!("mod m{n};\n")).collect();
        let ring: Vec<(String, String)> = (0..count)
            .map(|n| (format!("crates/a/src/m{n}.rs"), format!("use crate::m{0}::X{0};", (n + 1) % count)))
            .collect();
        let mut files = vec![("crates/a/src/lib.rs", lib.as_str())];
        files.extend(ring.iter().map(|(path, body)| (path.as_str(), body.as_str())));
        assert_eq!(check(&tree_of(&files))[0].places.len(), 1);
        files.pop();
        assert_eq!(check(&tree_of(&files))[0].places.len(), 0);
    }
}
