//! Work of other projects' programs on a mount, compared afterwards, on `shm` and on `file`: fio,
//! dbench, rsync, git, sources. A few seconds in the normal tests; `cargo xtask posix` runs the
//! long form. Each is skipped, with the reason, where a program is not installed.
//!
//! Left out, with the reason:
//! - dbench in the normal tests: it runs for a time, not for a number of operations;
//! - jobs of fio with `io_uring`: the sandbox of a test machine may refuse it, and the kernel sends
//!   a mount the same requests for `libaio`;
//! - birth times in rsync (`-N`): a mount has none (docs/semantics/posix.md, Limits of FUSE).

use crate::harness::{Mounted, long, works};
use crate::programs::{has, run};
use everbyte_media::BackendChoice;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const BACKENDS: [BackendChoice; 2] = [BackendChoice::Shm, BackendChoice::File];

/// Jobs of fio write blocks with checksums and verify them: random, sequential, unaligned, mapped,
/// past the page cache and with `O_SYNC`. After `fsync` and kill -9 of the daemon all blocks are
/// verified once more.
#[test]
fn fio_verifies_its_blocks_before_and_after_a_crash() {
    if !works() || !has("fio") {
        return;
    }
    let (size, times) = if long() { ("24M", 3) } else { ("1M", 1) };
    let jobs = [
        "--name=random --rw=randwrite --bs=4k --numjobs=2 --fsync=64",
        "--name=sequential --rw=write --bs=128k --numjobs=2 --fdatasync=16",
        "--name=unaligned --rw=randwrite --bsrange=512-40k --bs_unaligned --fsync=100",
        "--name=mapped --rw=randwrite --bs=4k --ioengine=mmap",
        "--name=direct --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=8",
        "--name=synchronous --rw=randwrite --bs=8k --sync=1",
        "--name=reading --rw=randrw --bs=16k --numjobs=2",
    ];
    for backend in BACKENDS {
        let mut on = Mounted::large(backend);
        for seed in 1..=times {
            let at = on.at.clone();
            let fio = |more: &str| {
                let script = format!(
                    "fio --directory={} --size={size} --randseed={seed} --verify=crc32c --verify_fatal=1 \
                     --fallocate={} --minimal {more} {}",
                    at.display(),
                    if seed % 2 == 0 { "none" } else { "posix" },
                    jobs.join(" ")
                );
                run(Path::new("/"), &script);
            };
            fio("--end_fsync=1");
            on.kill();
            on.mount();
            fio("--verify_only");
        }
        on.unmount();
        on.check();
    }
}

/// The load of dbench, which fails at the first call whose answer is not the recorded one.
#[test]
fn dbench_gets_the_answers_of_its_load() {
    if !works() || !has("dbench") {
        return;
    }
    if !long() {
        eprintln!("skipped: `cargo xtask posix` runs dbench");
        return;
    }
    for backend in BACKENDS {
        for flags in ["", "-x", "-s -S"] {
            let mut on = Mounted::large(backend);
            let said = run(&on.at, &format!("dbench -D . -t 10 {flags} 3"));
            assert!(said.contains("Throughput"), "{said}");
            on.unmount();
            on.check();
        }
    }
}

/// rsync brings a tree with hard links, access control lists, extended attributes, owners and holes
/// there and back, and an update of it; everything that rsync and the tools see is the same.
#[test]
fn rsync_brings_a_tree_there_and_back() {
    if !works() || !["rsync", "setfacl", "getfattr"].into_iter().all(has) {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    if long() {
        run(
            &tree,
            &format!("cp -a {}/../../crates {}/../../docs .", env!("CARGO_MANIFEST_DIR"), env!("CARGO_MANIFEST_DIR")),
        );
    }
    let script = "for n in $(seq 150); do seq $n $((n * 9)) > deep/$n; done
        ln deep/3 deep/er/three; ln deep/3 'a name of the third'; ln -s ../3 deep/er/link; mkfifo fifo; mknod device c 1 3
        touch -hd 2001-02-03 deep/er/link fifo device # rsync leaves times of these that are in the right second
        chmod 4750 deep/4; chown 12:34 deep/5; touch -d 1999-12-31T23:59:59.123456789 deep/6; chmod 1777 deep/er
        truncate -s 5M sparse; printf end >> sparse
        setfacl -m u:daemon:rw,g:bin:r,m::rw deep/7; setfacl -d -m u:daemon:rwx deep/er; setfacl -m u:bin:x deep
        setfattr -n user.note -v text deep/8; setfattr -n user.empty deep/8; setfattr -n trusted.note -v secret deep/er
        setfattr -n user.long -v $(seq -s- 300) deep/9";
    run(&tree, script);
    let update = "rm deep/1 'a name of the third'; seq 5000 > deep/2; seq 7 >> deep/50; setfacl -b deep/7; setfattr -x user.note deep/8
        mv deep/er/three deep/third; touch -d 1990-01-01 deep/60; chmod 600 deep/61; rm -r deep/er";
    // An independent look at what rsync compares, a line for each file and tool.
    let seen = |at: &Path| -> BTreeSet<String> {
        let script = "find . -printf '%P %y %m %n %U:%G %l ' \\( -type d -printf '\\n' -o -printf '%s %T@\\n' \\)
            line() { awk -v RS= '{ gsub(/\\n/, \" \"); print }'; }
            getfacl -RPpn . | line; find . -print0 | xargs -0 getfattr -hd -m '^(user|trusted)' | line";
        run(at, script).lines().map(str::to_owned).collect()
    };
    for backend in BACKENDS {
        let mut on = Mounted::large(backend);
        let source = folder.path().join(format!("source-{backend:?}"));
        let (from, to, back) = (source.display(), on.path("tree"), folder.path().join(format!("back-{backend:?}")));
        run(folder.path(), &format!("cp -a tree {from}"));
        for (round, how) in ["-S", "--inplace", "--checksum"].into_iter().enumerate() {
            if round == 1 {
                run(&source, update);
            }
            let (to, back) = (to.display(), back.display());
            run(
                &on.at,
                &format!(
                    "rsync -aHAX --numeric-ids --delete {how} {from}/ {to}; rsync -aHAX --delete {how} {to}/ {back}"
                ),
            );
            let compare = |a: &dyn std::fmt::Display, b: &dyn std::fmt::Display| {
                let script = format!(
                    "rsync -aHAXnic --numeric-ids --delete {a}/ {b}; diff -r --no-dereference -x fifo -x device {a} {b}"
                );
                let found = run(&on.at, &script);
                assert_eq!(found, "", "{how}");
            };
            compare(&from, &to);
            compare(&to, &from);
            compare(&from, &back);
            let (ours, theirs) = (seen(Path::new(&to.to_string())), seen(&source));
            assert_eq!(ours.symmetric_difference(&theirs).collect::<Vec<_>>(), [""; 0], "{how}");
        }
        on.unmount();
        on.check();
    }
}

/// Files of packed sources in cargo's registry: the largest below a megabyte, or all of them.
fn sources() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let files =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let packed = home.into_iter().flat_map(|home| files(home.join("registry/cache"))).flat_map(files);
    let sized = packed.filter_map(|path| Some((fs::metadata(&path).ok()?.len(), path)));
    let mut sized: Vec<_> = sized.filter(|(_, path)| path.extension().is_some_and(|kind| kind == "crate")).collect();
    sized.sort();
    if !long() {
        sized = sized.into_iter().rfind(|(size, _)| *size < 1 << 20).into_iter().collect();
    }
    sized.into_iter().map(|(_, path)| path).collect()
}

/// Sources are unpacked, compared, partly removed, compared, and removed; all their room is free
/// again.
#[test]
fn sources_are_unpacked_and_removed() {
    let packed = sources();
    if !works() || !has("tar") {
        return;
    }
    if packed.is_empty() {
        eprintln!("skipped: cargo's registry has no packed sources");
        return;
    }
    let words: Vec<_> = packed.iter().map(|path| format!("'{}'", path.display())).collect();
    let unpack = format!("mkdir tree; for packed in {}; do tar -C tree -xzf $packed; done", words.join(" "));
    let thin =
        "find tree -type f | sort | awk 'NR % 3' | xargs -d '\\n' rm; find tree -mindepth 2 -type d -empty -delete";
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    run(folder.path(), &unpack);
    run(folder.path(), &format!("cp -a tree whole; {thin}; mv tree thin"));
    for backend in BACKENDS {
        let mut on = Mounted::large(backend);
        // The inode table keeps the room that it has grown to.
        run(&on.at, &format!("{unpack}; rm -r tree"));
        on.unmount();
        on.mount();
        let before = free(&on.at);
        run(&on.at, &unpack);
        run(&on.at, &format!("diff -r tree {}/whole", folder.path().display()));
        assert!(free(&on.at) < before);
        run(&on.at, thin);
        on.unmount();
        on.check();
        on.mount();
        run(&on.at, &format!("diff -r tree {}/thin; rm -r tree", folder.path().display()));
        wait_until_free(&on.at, before);
        on.unmount();
        on.check();
    }
}

/// Blocks and inodes that are free.
fn free(at: &Path) -> (u64, u64) {
    rustix::fs::statvfs(at).map(|said| (said.f_bfree, said.f_ffree)).unwrap()
}

/// Waits until the kernel has forgotten removed files, which it does after `rm` has returned.
fn wait_until_free(at: &Path, before: (u64, u64)) {
    let end = Instant::now() + Duration::from_secs(30);
    while free(at) != before {
        assert!(Instant::now() < end, "{:?} blocks and inodes are free, of {before:?}", free(at));
        sleep(Duration::from_millis(2));
    }
}

/// The sources of the Linux kernel, of the package linux-source, are unpacked, compared with their
/// archive, partly built, and removed. After the daemon was killed (`shm`), or the volume was
/// unmounted (`file`), the sources are compared again, and `make` finds nothing to build anew. All
/// room is free again in the end.
#[test]
fn the_kernel_is_unpacked_built_and_removed() {
    if !works() || !["tar", "xz", "make", "gcc", "flex", "bison"].into_iter().all(has) {
        return;
    }
    if !long() {
        eprintln!("skipped: `cargo xtask posix` runs it; `sources_are_unpacked_and_removed` is the short form");
        return;
    }
    let packages = fs::read_dir("/usr/src").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_kernel = |path: &PathBuf| name(path).starts_with("linux-source-") && name(path).ends_with(".tar.xz");
    let Some(archive) = packages.filter(is_kernel).max() else {
        eprintln!("skipped: no package linux-source is installed");
        return;
    };
    let (packed, tree) = (archive.display(), name(&archive).replace(".tar.xz", ""));
    let build = format!("make -C {tree} -j2 lib/ fs/ 2>&1");
    for backend in BACKENDS {
        let folder = if backend == BackendChoice::Shm { "/dev/shm" } else { env!("CARGO_TARGET_TMPDIR") };
        let mut on = Mounted::of_span(backend, tempfile::tempdir_in(folder).unwrap(), "", 4 << 30);
        // The inode table keeps the room that it has grown to.
        run(&on.at, &format!("tar -xJf {packed}; cp -r {tree}/fs more; rm -r {tree} more"));
        on.unmount();
        on.mount();
        let before = free(&on.at);
        run(&on.at, &format!("tar -xJf {packed}; tar -dJf {packed}; make -C {tree} -s tinyconfig 2>&1; {build}"));
        assert!(fs::metadata(on.path(&tree).join("fs/namei.o")).unwrap().len() > 0);
        match backend {
            BackendChoice::Shm => on.kill(),
            _ => on.unmount(),
        }
        on.mount();
        run(&on.at, &format!("tar -dJf {packed}"));
        let again = run(&on.at, &build);
        assert!(!again.lines().any(|line| line.trim_start().starts_with("CC ")), "{again}");
        run(&on.at, &format!("rm -r {tree}"));
        wait_until_free(&on.at, before);
        on.unmount();
        on.check();
    }
}

/// This project's own repository is cloned, packed, checked out at other commits, and verified.
#[test]
fn git_clones_and_packs_this_repository() {
    if !works() || !has("git") {
        return;
    }
    if !long() {
        eprintln!("skipped: `cargo xtask posix` runs it; `git_keeps_a_repository` is the short form");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    if !root.join(".git").exists() {
        eprintln!("skipped: the sources are no git repository");
        return;
    }
    let root = root.display();
    for backend in BACKENDS {
        let mut on = Mounted::large(backend);
        let script = format!(
            "git config --global --add safe.directory '*'; git config --global advice.detachedHead false
             git clone -q --no-local {root} clone; cd clone; git fsck --full --strict 2>&1 | grep -v dangling || true
             head=$(git rev-parse HEAD); test $head = $(git -C {root} rev-parse HEAD)
             old=$(git rev-list -n 40 HEAD | tail -n 1)
             git checkout -q $old; git status --porcelain; git checkout -q $head; git status --porcelain
             git -c core.fsync=all repack -q -adf; git gc -q --prune=now; git fsck --full --strict
             git worktree add -q ../other $old; git -C ../other status --porcelain
             test \"$(git archive HEAD | sha256sum)\" = \"$(git -C {root} archive HEAD | sha256sum)\"; cd ..; git clone -q --shared clone third
             diff -r --exclude .git clone third"
        );
        assert_eq!(run(&on.at, &script), "");
        on.unmount();
        on.check();
        on.mount();
        assert_eq!(
            run(&on.at, "git -C clone fsck --full --strict; git -C clone status --porcelain; rm -r clone other third"),
            ""
        );
        on.unmount();
        on.check();
    }
}
