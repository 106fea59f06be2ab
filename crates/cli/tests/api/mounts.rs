//! `everbyte fs mount`, `fs umount` and `serve --mount`, and `mount -t everbyte`. Skipped, with the
//! reason, without `/dev/fuse` or root.

use crate::common::{Place, said};
use everbyte_media::Options;
use everbyte_store::Store;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) fn works() -> bool {
    let found = fs::File::options().read(true).write(true).open("/dev/fuse");
    let works = found.is_ok() && rustix::process::geteuid().is_root();
    if !works {
        eprintln!("skipped: mounts are tested as root, with /dev/fuse");
    }
    works
}

fn is_mounted(point: &Path) -> bool {
    let (table, point) = (fs::read_to_string("/proc/self/mountinfo").unwrap(), format!(" {} ", point.display()));
    table.lines().any(|line| line.contains(&point) && line.contains(" - fuse"))
}

/// A volume is mounted in the background, used, listed by its process, refused to other commands,
/// and unmounted so that the next command finds the store closed.
#[test]
fn a_volume_is_mounted_and_unmounted() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    let said = place.good(&["--json", "fs", "mount", "everbyte.store:home", "at", "--background"]);
    assert!(said.contains("\"mounted\":") && said.contains("everbyte.store:home"), "{said}");
    fs::write(place.path("at/note"), b"hello").unwrap();
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "note\n");
    place.good(&["fs", "fsck", "home"]);
    place.bad(&["fs", "fsck", "home", "--repair", "--dry-run"], 4, &["mounted on", "fs umount"]);
    place.bad(&["fs", "mount", "everbyte.store:home", "at"], 4, &["in use"]);
    let open = fs::File::open(place.path("at/note")).unwrap();
    place.bad(&["fs", "umount", "at"], 4, &["--lazy"]);
    drop(open);
    place.good(&["fs", "umount", "at"]);
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "note\n");
    place.good(&["fs", "fsck", "home"]);
}

/// A mount is found by each path of its directory, also when its process is dead. The name of its
/// store has a colon.
#[test]
fn a_mount_is_unmounted_by_any_path() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    fs::create_dir(place.path("sub")).unwrap();
    symlink("at", place.path("link")).unwrap();
    let point = place.path("at").canonicalize().unwrap();
    fs::rename(place.path("everbyte.store"), place.path("a:b.store")).unwrap();
    for (path, dies) in [("sub/../at", false), ("link", false), ("at/", true), ("sub/../link/.", true)] {
        let mut command = place.command(&["fs", "mount", "a:b.store:home", "link"]);
        let mut daemon = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(daemon.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(is_mounted(&point), "{line}");
        if dies {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
        assert!(place.good(&["fs", "umount", path]).contains("unmounted"));
        assert!(!is_mounted(&point), "{path}");
        daemon.wait().unwrap();
    }
}

/// A signal that comes before the line about the mount has left the process unmounts too.
#[test]
fn a_signal_at_the_start_leaves_no_mount() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    while writer.write(&[b' '; 4096]).is_ok() {} // until it is full
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).unwrap();
    let mut command = place.command(&["fs", "mount", "everbyte.store:home", "at"]);
    let mut daemon = command.stdout(writer).spawn().unwrap();
    drop(command);
    while !place.path("everbyte.store.control").exists() {
        assert!(daemon.try_wait().unwrap().is_none());
    }
    let id = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert!(daemon.wait().unwrap().success() && said.contains("mounted"));
    assert_eq!(fs::read_dir(place.path("at")).unwrap().count(), 0);
    assert!(place.good(&["fs", "fsck", "home"]).contains("nothing was interrupted"));
}

#[test]
fn mounts_that_cannot_be_are_refused() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/file"), b"").unwrap();
    let mount = |source, at| ["fs", "mount", source, at];
    place.bad(&mount("everbyte.store", "full"), 2, &["STORE:VOLUME"]);
    place.bad(&mount("none.store:home", "full"), 5, &["no such store"]);
    place.bad(&mount("everbyte.store:none", "full"), 1, &["none"]);
    place.bad(&mount("everbyte.store:home", "full"), 2, &["not empty", "nonempty"]);
    place.bad(&mount("everbyte.store:home", "absent"), 2, &["no such directory"]);
    place.bad(&mount("everbyte.store:home", "everbyte.store"), 2, &["not a directory"]);
    for (option, known) in [("fast", "noatime"), ("pagesize=3M", "pagesize=2M"), ("windows=on", "windows=mprotect")] {
        place.bad(&["fs", "mount", "everbyte.store:home", "full", "-o", option], 2, &[option, known]);
    }
    place.bad(&["fs", "umount", "full"], 2, &["no volume is mounted here"]);
    place.bad(&["fs", "mount", "everbyte.store:home", "full", "--background"], 2, &["not empty", "not mounted"]);
}

/// A store with the volume `home`, the directory `at`, and the helper of mount(8) in `sbin`.
fn with_helper() -> Place {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    fs::create_dir(place.path("sbin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_everbyte"), place.path("sbin/mount.everbyte")).unwrap();
    place
}

/// The helper mounts with the arguments that mount(8) gives it, and is silent unless it is told
/// `-v`; its exit codes are those of mount(8).
#[test]
fn the_helper_of_mount_mounts() {
    if !works() {
        return;
    }
    let place = with_helper();
    let run = |words: &str| {
        let mut command = Command::new(place.path("sbin/mount.everbyte"));
        said(command.args(words.split(' ')).current_dir(place.folder.path()).stdin(Stdio::null()).output().unwrap())
    };
    let said = run("everbyte.store:home at -n -f -o rw");
    assert!(said.code == 0 && !is_mounted(&place.path("at")), "{said:?}");
    for (words, code, why) in [
        ("everbyte.store:home", 1, "usage"),
        ("everbyte.store:home at -o rw,fast", 1, "fast"),
        ("everbyte.store:none at -o rw", 32, "none"),
    ] {
        let said = run(words);
        assert!(said.code == code && said.err.contains(why), "{words}: {said:?}");
    }
    let said = run("everbyte.store:home at -s -n -o rw,noatime,fast,_netdev,threads=2,backend=auto,durability=process");
    assert!(said.code == 0 && said.out.is_empty() && said.err.is_empty(), "{said:?}");
    fs::write(place.path("at/note"), b"hello").unwrap();
    place.good(&["fs", "umount", "at"]);
    let said = run("everbyte.store:home at -v -o ro,nosuid,x-systemd.automount");
    assert!(said.code == 0 && said.out.contains("read-only"), "{said:?}");
    assert_eq!(fs::read(place.path("at/note")).unwrap(), b"hello");
    assert!(fs::write(place.path("at/note"), b"").is_err());
    place.good(&["fs", "umount", "at"]);
}

/// A store that another process closes soon, as after umount(8), is waited for.
#[test]
fn the_helper_of_mount_waits_for_a_closing_store() {
    if !works() {
        return;
    }
    let place = with_helper();
    let store = Store::open(&place.path("everbyte.store"), &Options::default()).unwrap();
    let mut command = Command::new(place.path("sbin/mount.everbyte"));
    command.args(["everbyte.store:home", "at", "-v"]).current_dir(place.folder.path());
    let mut helper = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(helper.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("waiting"));
    store.close().unwrap();
    drop(store);
    assert!(lines.next().unwrap().unwrap().starts_with("mounted"));
    assert!(helper.wait().unwrap().success());
    place.good(&["fs", "umount", "at"]);
}

/// mount(8) finds the helper, by its type and by a line of fstab. It looks in /sbin alone, so these
/// mounts are in a namespace that has another /sbin.
#[test]
fn mount_finds_its_helper() {
    if !works() {
        return;
    }
    let private = Command::new("unshare").args(["-m", "true"]).status();
    if !private.is_ok_and(|status| status.success()) {
        eprintln!("skipped: unshare makes no namespace of mounts");
        return;
    }
    let place = with_helper();
    let fstab = "HERE/everbyte.store:home HERE/at everbyte noauto,nofail,noatime,user,exec,x-systemd.automount 0 0\n";
    let here = place.folder.path().to_str().unwrap();
    fs::write(place.path("fstab"), fstab.replace("HERE", here)).unwrap();
    let script = r#"mount --bind sbin /sbin
        mount -t everbyte everbyte.store:home at -o nosuid,threads=2
        echo one > at/note
        "$EVERBYTE" fs umount at
        mount -T fstab "$PWD/at"
        cat at/note
        grep -c "$PWD/at .*nosuid.*noatime .*everbyte.store:home" /proc/self/mountinfo
        umount at
        mount -T fstab "$PWD/at"
        "$EVERBYTE" fs umount at"#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-euc", script]).current_dir(here).env("EVERBYTE", env!("CARGO_BIN_EXE_everbyte"));
    let said = said(command.stdin(Stdio::null()).output().unwrap());
    assert!(said.code == 0 && said.out.contains("\none\n1\n"), "{said:?}");
    place.good(&["fs", "fsck", "home"]);
}

/// The units that `make install` copies are such that systemd takes them.
#[test]
fn systemd_takes_the_units() {
    let installed = Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_everbyte"), place.path("bin/everbyte")).unwrap();
    // The last one is a drop-in of the first one.
    fs::create_dir(place.path("everbyte.service.d")).unwrap();
    for name in ["everbyte.service", "srv-everbyte.mount", "mounts.conf"] {
        let unit = unit(name).replace("@PREFIX@", place.folder.path().to_str().unwrap());
        let (file, checked) = match name {
            "mounts.conf" => ("everbyte.service.d/mounts.conf", "everbyte.service"),
            unit => (unit, unit),
        };
        fs::write(place.path(file), unit).unwrap();
        let said = said(Command::new("systemd-analyze").arg("verify").arg(place.path(checked)).output().unwrap());
        assert!(said.code == 0 && said.err.is_empty(), "{name}: {said:?}");
    }
}

/// A unit that the repository has for systemd.
fn unit(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/systemd").join(name)).unwrap()
}

/// With its drop-in the service mounts where other processes see it: as root, and without any
/// option for which systemd makes a namespace of mounts, or refuses `/dev/fuse`.
#[test]
fn the_service_with_mounts_has_no_namespace() {
    let mut settings = std::collections::HashMap::new();
    let units = [unit("everbyte.service"), unit("mounts.conf")];
    for line in units.iter().flat_map(|unit| unit.lines()).filter(|line| !line.starts_with(['#', '['])) {
        settings.extend(line.split_once('='));
    }
    let is_off = |name: &str| !matches!(settings.get(name), Some(&value) if value != "no" && !value.is_empty());
    let by_name = |name: &&str| name.starts_with("Private") || name.starts_with("Protect") || name.ends_with("Paths");
    let others = ["TemporaryFileSystem", "RootDirectory", "RootImage", "MountAPIVFS", "ProcSubset", "DevicePolicy"];
    let further = ["DynamicUser", "MountFlags", "MountImages", "ExtensionImages", "LogNamespace", "DeviceAllow"];
    for name in settings.keys().copied().filter(by_name).chain(others).chain(further) {
        assert!(is_off(name), "{name} keeps the mounts from other processes");
    }
    assert_eq!(settings["User"], "root");
    assert!(settings["ExecStart"].contains(" --mount "), "{}", settings["ExecStart"]);
}

/// `make run` serves, and `serve` tells how to mount: by the path of the program that was started.
#[test]
fn a_new_user_is_told_of_mounts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match Command::new("make").args(["-n", "run", "STORE=./files.store"]).current_dir(root).output() {
        Ok(output) => {
            let said = said(output);
            assert!(said.out.contains("/release/everbyte serve ./files.store --create --listen "), "{said:?}");
        }
        Err(error) => eprintln!("skipped in part: make: {error}"),
    }
    let place = Place::new();
    let words = ["serve", "files.store", "--create", "--max", "1GiB", "--listen", "127.0.0.1:0"];
    let mut server = place.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let is_last = |line: &str| line.starts_with("Then kill this server");
    let line = lines.into_iter().find(|line| line.contains("--mount") || is_last(line));
    let _ = server.kill();
    server.wait().unwrap();
    let program = env!("CARGO_BIN_EXE_everbyte");
    assert_eq!(
        line.unwrap_or_default(),
        format!(
            "For files too: {program} serve files.store --create --mount home=DIR mounts the volume `home` on DIR."
        )
    );
}

/// A user without rights creates a store, mounts its volume through `fusermount3`, has it to
/// itself, and finds its synced files after kill -9 of the daemon. In a namespace where that user
/// can open `/dev/fuse`, as on other machines.
#[test]
fn a_user_mounts_its_own_store() {
    if !works() {
        return;
    }
    for (program, words) in [("unshare", &["-m", "true"][..]), ("setpriv", &["--version"]), ("fusermount3", &["-V"])] {
        let found = Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            eprintln!("skipped: {program} does not work here");
            return;
        }
    }
    let place = Place::new();
    let program = place.path("everbyte"); // the user may be kept from our directory
    fs::copy(env!("CARGO_BIN_EXE_everbyte"), &program).unwrap();
    let by_user = r#"cd home
        "$EVERBYTE" create --max 1GiB --log 1MiB
        "$EVERBYTE" fs mkfs home --span 64MiB
        mkdir at
        "$EVERBYTE" fs mount everbyte.store:home at -o allow_other 2> refused && exit 1
        cat refused
        "$EVERBYTE" fs mount everbyte.store:home at -o commit=0 > said & daemon=$!
        until grep mounted said; do kill -0 $daemon; done
        echo kept > at/note; sync at/note
        "$EVERBYTE" fs put said home:/
        "$EVERBYTE" fs ls home:/
        "$EVERBYTE" fs snapshot create home monday
        touch at/unsynced
        echo $daemon > daemon"#;
    let after_crash = r#"cd home
        kill -9 $(cat daemon)
        while cat at/note > gone 2>&1; do :; done
        n=0 # the lock of the store goes a moment later
        until "$EVERBYTE" fs mount everbyte.store:home at --background 2> gone; do
            n=$((n + 1)); test $n -lt 100 || { cat gone; exit 1; }
        done
        cat at/note
        grep "$PWD/at " /proc/self/mountinfo
        "$EVERBYTE" fs umount at
        test -z "$(ls at)"
        "$EVERBYTE" fs fsck home
        "$EVERBYTE" fs snapshot list home"#;
    let script = r#"mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse
        chmod 755 .; mkdir home; chown 65534:65534 home
        user() { setpriv --reuid 65534 --regid 65534 --clear-groups sh -euc "$1"; }
        user "$BY_USER"
        cat home/at/note 2> refused && exit 1
        "$EVERBYTE" --json fs --store home/everbyte.store ls home:/ | grep -c name
        user "$AFTER_CRASH""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-euc", script]).current_dir(place.folder.path());
    command.env("EVERBYTE", program).env("BY_USER", by_user).env("AFTER_CRASH", after_crash);
    let said = said(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!(said.code, 0, "{said:?}");
    for why in ["allow_other", "note\nsaid\n", "\n3\n", "kept\n", "fuse.everbyte", "is whole", "monday"] {
        assert!(said.out.contains(why), "{why}: {said:?}");
    }
}

/// A server with mounts. A test that fails leaves no mount behind.
pub(crate) struct Server<'p> {
    place: &'p Place,
    child: Child,
    address: String,
}

impl Server<'_> {
    pub(crate) fn start<'p>(place: &'p Place, words: &[&str]) -> Server<'p> {
        let words = [&["--json", "serve", "--listen", "127.0.0.1:0"], words].concat();
        let mut child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(hello) = serde_json::from_str::<serde_json::Value>(&line) else {
            panic!("the server did not start: {:?}", said(child.wait_with_output().unwrap()));
        };
        Server { place, child, address: hello["address"].as_str().unwrap().to_owned() }
    }

    #[track_caller]
    fn ask(&self, request: &str, expected: &str) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = vec![0; expected.len()];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(String::from_utf8_lossy(&reply), expected);
    }

    /// Sends SIGTERM; returns the exit code.
    pub(crate) fn terminate(mut self) -> i32 {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }

    /// Sends SIGTERM; returns the text on standard error.
    pub(crate) fn terminate_and_read(mut self) -> String {
        let mut errors = self.child.stderr.take().unwrap();
        assert_eq!(self.terminate(), 0);
        let mut said = String::new();
        errors.read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for at in ["at", "other"] {
            let _ = everbyte_fuse::unmount(&self.place.path(at), true);
        }
    }
}

/// One process serves keys and mounts two volumes. After SIGTERM, also while a program holds a file
/// open, the directories are free, and keys and files are there.
#[test]
fn a_server_mounts_volumes_and_ends_in_good_order() {
    if !works() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("at")).unwrap();
    fs::create_dir(place.path("other")).unwrap();
    let words = ["--create", "--max", "1GiB", "--mount", "home=at", "--mount", "work=other"];
    let server = Server::start(&place, &words);
    server.ask("SET greeting hello\r\n", "+OK\r\n");
    fs::write(place.path("at/note"), b"from home").unwrap();
    fs::write(place.path("other/note"), b"from work").unwrap();
    assert_eq!(server.terminate(), 0);
    for at in ["at", "other"] {
        assert_eq!(fs::read_dir(place.path(at)).unwrap().count(), 0, "{at} is no mount any more");
    }
    assert_eq!(place.good(&["kv", "get", "greeting"]), "hello\n");
    for (volume, bytes) in [("home", "from home"), ("work", "from work")] {
        place.good(&["fs", "get", &format!("{volume}:/note"), volume]);
        assert_eq!(fs::read_to_string(place.path(volume)).unwrap(), bytes);
        assert!(place.good(&["fs", "fsck", volume]).contains("nothing was interrupted"));
    }

    let server = Server::start(&place, &["--mount", "home=at"]);
    server.ask("GET greeting\r\n", "$5\r\nhello\r\n");
    let mut open = fs::File::create(place.path("at/open")).unwrap();
    open.write_all(b"kept").unwrap();
    assert_eq!(server.terminate(), 0);
    drop(open);
    assert_eq!(fs::read_dir(place.path("at")).unwrap().count(), 0);
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "note\nopen\n");
}

/// SIGHUP without TLS ends a server in good order, as it does a mount; started by nohup(1), the
/// server goes on.
#[test]
fn a_hangup_ends_a_server_in_good_order() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    let mut server = Server::start(&place, &["--mount", "home=at"]);
    server.ask("SET a 1\r\n", "+OK\r\n");
    fs::write(place.path("at/note"), b"unsynced").unwrap();
    let hang_up = |child: &Child| {
        rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::HUP).unwrap()
    };
    hang_up(&server.child);
    let end = server.child.wait().unwrap();
    assert!(end.success(), "{end}");
    assert_eq!(fs::read_dir(place.path("at")).unwrap().count(), 0, "the directory is no mount any more");
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "note\n");
    drop(server);

    let words = ["serve", "--listen", "127.0.0.1:0"];
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_everbyte")).args(words).current_dir(place.folder.path());
    let Ok(mut server) = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        eprintln!("skipped in part: nohup is not installed");
        return;
    };
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & 1, 1, "SIGHUP is ignored no more");
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success() && line.contains("serving"), "{line}");
}

/// Options behind the directory are those of `-o`. A volume that is mounted read-only is changed by
/// no command either, and its neighbour in the store is.
#[test]
fn a_server_mounts_with_options() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    place.good(&["fs", "mkfs", "work", "--span", "64MiB"]);
    fs::write(place.path("note"), b"kept").unwrap();
    place.good(&["fs", "put", "note", "home:/"]);
    fs::create_dir(place.path("at")).unwrap();
    fs::create_dir(place.path("other")).unwrap();
    let server = Server::start(&place, &["--mount", "home=at,ro,noatime", "--mount", "work=other,noexec"]);
    assert_eq!(fs::read(place.path("at/note")).unwrap(), b"kept");
    let error = fs::write(place.path("at/note"), b"").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    place.bad(&["fs", "put", "note", "home:/", "--replace"], 5, &["read-only"]);
    place.bad(&["fs", "snapshot", "create", "home", "monday"], 5, &["read-only"]);
    place.bad(&["fs", "grow", "home", "16MiB"], 5, &["read-only"]);
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "note\n");
    place.good(&["fs", "fsck", "home"]);
    let flags = |at| rustix::fs::statvfs(place.path(at)).unwrap().f_flag;
    let noexec = rustix::fs::StatVfsMountFlags::NOEXEC;
    assert!(flags("other").contains(noexec) && !flags("at").contains(noexec));
    place.good(&["fs", "put", "note", "work:/"]);
    assert_eq!(fs::read(place.path("other/note")).unwrap(), b"kept");
    assert_eq!(server.terminate(), 0);

    // A directory that has a comma in its name.
    fs::create_dir(place.path("at,ro")).unwrap();
    let server = Server::start(&place, &["--mount", "home=at,ro"]);
    fs::write(place.path("at,ro/note"), b"new").unwrap();
    assert_eq!(server.terminate(), 0);
    place.good(&["fs", "fsck", "home"]);
}

/// The page size of new files, relaxed commit and the kind of write windows are options of a mount,
/// by `fs mount` and by a server, also of a volume that the server makes.
#[test]
fn a_volume_is_mounted_with_options_of_its_opening() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    fs::create_dir(place.path("new")).unwrap();
    let allocated = |path: &str| fs::metadata(place.path(path)).unwrap().blocks() * 512;
    let windows = |volume| place.good(&["--json", "fs", "stat", volume]).contains("\"write_windows\":\"page-table\"");
    let options = "pagesize=2M,relaxed,windows=mprotect";
    place.good(&["fs", "mount", "everbyte.store:home", "at", "--background", "-o", options]);
    fs::write(place.path("at/large"), [7; 5000]).unwrap();
    assert_eq!((allocated("at/large"), windows("home")), (2 << 20, true));
    place.good(&["fs", "umount", "at"]);
    let mounts = ["home=at,windows=off", "new=new,pagesize=2M,windows=mprotect"];
    let server = Server::start(&place, &["--create", "--mount", mounts[0], "--mount", mounts[1]]);
    assert_eq!(fs::read(place.path("at/large")).unwrap(), [7; 5000]);
    fs::write(place.path("at/small"), [7; 5000]).unwrap();
    fs::write(place.path("new/large"), [7; 5000]).unwrap();
    assert_eq!((allocated("at/small"), windows("home")), (8192, false));
    assert_eq!((allocated("new/large"), windows("new")), (2 << 20, true));
    assert_eq!(server.terminate(), 0);
    place.good(&["check"]);
}

/// All that calls have returned for is durable after `fs sync`, also the bytes that the kernel
/// keeps with `writeback`, and without `fsync` or a commit.
#[test]
fn what_was_synced_by_command_survives_the_server() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    place.good(&["fs", "mkfs", "work", "--span", "64MiB"]);
    place.good(&["fs", "sync", "home"]);
    fs::create_dir(place.path("at")).unwrap();
    fs::create_dir(place.path("other")).unwrap();
    let words = ["--mount", "home=at,commit=0,threads=2", "--mount", "work=other,writeback,commit=0"];
    let mut server = Server::start(&place, &words);
    let mut open = Vec::new();
    for at in ["at", "other"] {
        let mut file = fs::File::create(place.path(at).join("open")).unwrap();
        file.write_all(&[7; 50_000]).unwrap();
        open.push(file);
        fs::create_dir(place.path(at).join("directory")).unwrap();
    }
    assert_eq!(place.good(&["fs", "sync", "home"]), "all changes of volume home are durable\n");
    place.good(&["fs", "sync", "work"]);
    place.bad(&["fs", "sync", "none"], 1, &["none"]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    drop(open);
    let server = Server::start(&place, &["--mount", "home=at,ro", "--mount", "work=other"]);
    for at in ["at", "other"] {
        assert_eq!(fs::read(place.path(at).join("open")).unwrap(), [7; 50_000], "{at}");
        assert!(fs::metadata(place.path(at).join("directory")).unwrap().is_dir(), "{at}");
    }
    place.good(&["fs", "sync", "home"]);
    assert_eq!(server.terminate(), 0);
}

/// Unmounted from outside, a volume is closed and the server goes on.
#[test]
fn a_server_outlives_its_mounts() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    let server = Server::start(&place, &["--mount", "home=at"]);
    place.good(&["fs", "umount", "at"]); // does not wait for the server to end
    server.ask("SET a 1\r\n", "+OK\r\n");
    let run = |program: &str, words: &[&str]| Command::new(program).args(words).arg(place.path("at")).status().unwrap();
    for _ in 0..2 {
        assert!(run("mount", &["-t", "tmpfs", "everbyte-test"]).success());
    }
    assert_eq!(server.terminate(), 0); // and `Server` takes one of them away
    assert!(run("umount", &[]).success(), "a mount of another program stays");
    assert_eq!(place.good(&["kv", "get", "a"]), "1\n");
}

/// After kill -9 a server mounts over its dead mount, and has all that was synced.
#[test]
fn a_server_comes_back_over_its_dead_mount() {
    if !works() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("at")).unwrap();
    let words = ["--create", "--max", "1GiB", "--mount", "home=at"];
    let mut server = Server::start(&place, &words);
    server.ask("SET a 1\r\n", "+OK\r\n");
    let mut synced = fs::File::create(place.path("at/synced")).unwrap();
    synced.write_all(b"kept").unwrap();
    synced.sync_all().unwrap();
    drop(synced);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(fs::read_dir(place.path("at")).is_err(), "the mount is dead");
    let again = Server::start(&place, &words);
    again.ask("GET a\r\n", "$1\r\n1\r\n");
    assert_eq!(fs::read(place.path("at/synced")).unwrap(), b"kept");
    assert_eq!(again.terminate(), 0);
}

/// A mount that cannot be is an error before anything is served, and takes the mounts before it
/// along.
#[test]
fn a_server_refuses_mounts_that_cannot_be() {
    if !works() {
        return;
    }
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    place.good(&["fs", "mkfs", "work", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    fs::create_dir_all(place.path("other/backups")).unwrap();
    let serve = |mounts: &[&str], code, why: &[&str]| {
        let mut words = vec!["serve", "--listen", "127.0.0.1:0"];
        mounts.iter().for_each(|mount| words.extend(["--mount", mount]));
        place.bad(&words, code, why);
        assert!(!is_mounted(&place.path("at").canonicalize().unwrap()));
    };
    serve(&["home"], 2, &["VOLUME=DIR"]);
    serve(&["=at"], 2, &["VOLUME=DIR"]);
    serve(&["home=,ro"], 2, &["VOLUME=DIR"]);
    serve(&["home=at,fast"], 2, &["fast", "noatime"]);
    serve(&["home=at,", "work=other,ro"], 2, &["not empty"]);
    serve(&["none=at"], 1, &["none"]);
    serve(&["home=absent"], 2, &["no such directory"]);
    serve(&["home=at", "work=other"], 2, &["not empty"]);
    serve(&["home=at", "work=at"], 4, &["a file system is mounted here"]);
    serve(&["home=at", "home=other"], 4, &["home"]);
    let into = ["serve", "--backups", "other/backups", "--mount", "home=other"];
    place.bad(&into, 2, &["into the store itself"]);
    place.good(&["check"]);
}
