//! Programs of every day on a mount: tar, git, SQLite. Each is skipped, with the reason, where it
//! is not installed. Longer work of such programs: `loads`, `databases`.

use crate::harness::{Mounted, works};
use everbyte_media::BackendChoice;
use rustix::fs::XattrFlags;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Runs a script of the shell, whose working directory is `at`.
#[track_caller]
pub(crate) fn run(at: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(at).env("HOME", at).env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

pub(crate) fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap().status.success();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn mounted() -> Mounted {
    Mounted::on(BackendChoice::Shm, tempfile::tempdir_in("/dev/shm").unwrap(), "")
}

/// A tree with links, modes, times, holes, extended attributes and access control lists goes into
/// the mount by tar and comes back the same.
#[test]
fn tar_brings_a_tree_there_and_back() {
    if !works() || !["tar", "setfacl"].into_iter().all(has) {
        return;
    }
    let on = mounted();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    for number in 0..200_usize {
        fs::write(tree.join(format!("deep/{number}")), vec![number as u8; number * 97]).unwrap();
    }
    fs::hard_link(tree.join("deep/7"), tree.join("deep/er/seven")).unwrap();
    symlink("../7", tree.join("deep/er/link")).unwrap();
    fs::set_permissions(tree.join("deep/9"), fs::Permissions::from_mode(0o4711)).unwrap();
    rustix::fs::setxattr(tree.join("deep/5"), "user.note", b"text", XattrFlags::empty()).unwrap();
    run(
        &tree,
        "truncate -s 10M sparse; printf end >> sparse; setfacl -m u:daemon:rw deep/3; setfacl -dm g:bin:r deep/er",
    );
    let (from, to) = (folder.path().display(), on.at.display());
    run(&on.at, &format!("tar -C {from} --xattrs --acls -S -cf - tree | tar -C {to} --xattrs --acls -xpf -"));
    run(
        &on.at,
        &format!("mkdir {from}/back; tar --xattrs --acls -S -cf - tree | tar -C {from}/back --xattrs --acls -xpf -"),
    );
    run(&on.at, &format!("diff -r --no-dereference {from}/tree {from}/back/tree && diff -r {from}/tree tree"));
    let listed =
        |at: &Path| run(at, "find tree -printf '%p %y %m %n %s %T@ %l %u %g\\n' | grep -v '^tree.* d ' | sort");
    assert_eq!(listed(folder.path()), listed(&on.at));
    let lists = |at: &Path| run(at, "getfacl -Rp tree");
    assert_eq!(lists(&folder.path().join("back")), lists(folder.path()));
    let mut note = [0; 8];
    let len = rustix::fs::getxattr(folder.path().join("back/tree/deep/5"), "user.note", &mut note).unwrap();
    assert_eq!(&note[..len], b"text");
    let blocks: u64 = run(&on.at, "stat -c %b tree/sparse").trim().parse().unwrap();
    assert!(blocks <= 16, "the hole stays one: {blocks} blocks");
    run(&on.at, "rm -r tree");
}

#[test]
fn git_keeps_a_repository() {
    if !works() || !has("git") {
        return;
    }
    let on = mounted();
    let script = "git init -q repository; cd repository; git config user.email a@b; git config user.name a; \
                  for n in 1 2 3 4 5; do seq $n 3000 > file$n; git add .; git commit -qm $n; done; \
                  git gc -q; git fsck --strict 2>&1; cd ..; git clone -q repository other; \
                  cd other; git fsck --strict 2>&1; git log --oneline | wc -l";
    assert!(run(&on.at, script).trim().ends_with('5'));
}

/// SQLite in each of its journal modes, with a crash of the daemon between.
#[test]
fn sqlite_keeps_its_rows_over_a_crash() {
    if !works() || !has("sqlite3") {
        return;
    }
    let mut on = Mounted::new();
    for mode in ["DELETE", "PERSIST", "TRUNCATE", "WAL"] {
        let script = format!(
            "sqlite3 {mode}.db 'PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL; CREATE TABLE t(a PRIMARY KEY, b);' >/dev/null; \
             for n in 1 2 3 4 5; do sqlite3 {mode}.db \"PRAGMA synchronous=FULL; INSERT INTO t VALUES($n, hex(randomblob(5000)));\"; done"
        );
        run(&on.at, &script);
    }
    on.kill();
    on.mount();
    for mode in ["DELETE", "PERSIST", "TRUNCATE", "WAL"] {
        let said = run(&on.at, &format!("sqlite3 {mode}.db 'PRAGMA integrity_check; SELECT count(*) FROM t;'"));
        assert_eq!(said.trim(), "ok\n5", "{mode}");
    }
}
