//! `everbyte fs mount` and `everbyte fs umount`.

use super::fs;
use crate::args::{MountArgs, OpenArgs, UmountArgs};
use crate::control::Control;
use crate::failure::Failure;
use crate::mount_table;
use crate::open;
use crate::output::Output;
use everbyte_fs::Volume;
use everbyte_fuse::{Mount, MountOptions};
use everbyte_media::{ErrorInfo, ErrorKind};
use everbyte_store::Store;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long `umount` waits for the serving process to close the store.
const CLOSING: Duration = Duration::from_secs(30);
/// Links that lead to a mount point at most, as in the kernel.
const LINKS: u32 = 40;

pub(crate) fn mount(args: &MountArgs, words: &OpenArgs, output: &Output) -> Result<(), Failure> {
    let Some((path, name)) = args.source.rsplit_once(':').filter(|(path, name)| !path.is_empty() && !name.is_empty())
    else {
        return Err(Failure::Words(format!("`{}` is not STORE:VOLUME", args.source)));
    };
    let mut options = MountOptions::parse(&args.options)?;
    options.threads = args.threads.map(usize::from).or(options.threads);
    if args.background {
        return in_background(output);
    }
    let path = Path::new(path);
    let read_only = options.files.read_only;
    let store = if read_only { open::to_read(path, words)? } else { open::store(path, words)? };
    let volume = Volume::open_with(store.object(name)?, &options.files.opening())?;
    let path = path.canonicalize().map_err(|error| Failure::system("resolve the path", path, error))?;
    let source = format!("{}:{name}", path.display());
    let mut mount = Mount::new(volume, &args.directory, &source, &options)?;
    mount.catch_signals()?;
    let control = Control::start(&path, &store, vec![(name.to_owned(), mount.volume())], fs::run_served);
    let (at, backend) = (mount.path().display().to_string(), store.media().kind().name());
    let access = if read_only { ", read-only" } else { "" };
    let value = json!({ "mounted": at, "source": source, "backend": backend, "read_only": read_only });
    output.say(
        format!("mounted {source} on {at} (`{backend}`{access}); Ctrl-C or `everbyte fs umount {at}` unmounts"),
        value,
    )?;
    output.finish()?;
    if args.detach {
        detach().map_err(|error| Failure::System(format!("cannot redirect outputs to /dev/null: {error}")))?;
    }
    mount.run()?;
    drop(control);
    Ok(store.close()?)
}

/// Sends later output to /dev/null, so that readers of the caller's output see its end while this
/// process serves.
fn detach() -> io::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// Runs the same command with `--detach` in a process group of its own, until its line says that
/// the volume is mounted.
fn in_background(output: &Output) -> Result<(), Failure> {
    let failed = |action: &str, error: io::Error| Failure::System(format!("cannot {action}: {error}"));
    let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
    let words = std::env::args_os().skip(1).map(|word| if word == "--background" { "--detach".into() } else { word });
    let mut command = Command::new(program);
    // The file of the program may be named as the helper of mount(8) is.
    command.arg0("everbyte").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| failed("start the serving process", error))?;
    let mut line = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    lines.read_line(&mut line).map_err(|error| failed("read from the serving process", error))?;
    if !line.is_empty() {
        return output.bytes(line.as_bytes());
    }
    // The child has told the reason already.
    let status = child.wait().map_err(|error| failed("wait for the serving process", error))?;
    let text = "the volume was not mounted".to_owned();
    Err(Failure::of_code(status.code().and_then(|code| code.try_into().ok()).unwrap_or(5), text))
}

pub(crate) fn umount(args: &UmountArgs, output: &Output) -> Result<(), Failure> {
    let path = point(&args.directory).map_err(|error| Failure::system("resolve the path", &args.directory, error))?;
    let source = mount_table::source_of(&path);
    if source.is_none() && path.exists() {
        return Err(Failure::Words(format!("{}: no volume is mounted here", path.display())));
    }
    let of_server = mount_table::is_of_server(&path);
    everbyte_fuse::unmount(&path, args.lazy)?;
    if let Some((store, _)) = source.filter(|_| !args.lazy && !of_server) {
        wait_for(&store, CLOSING)?;
    }
    output.say(format!("unmounted {}", path.display()), json!({ "unmounted": path.display().to_string() }))
}

/// A mount point as the table of mounts has it.
fn point(path: &Path) -> io::Result<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    // The root of a dead mount cannot be resolved; its parent and links to it can.
    let mut path = std::path::absolute(path)?;
    for _ in 0..LINKS {
        let (Some(Ok(parent)), Some(name)) = (path.parent().map(Path::canonicalize), path.file_name()) else { break };
        let place = parent.join(name);
        match place.read_link() {
            Ok(target) => path = std::path::absolute(parent.join(target))?,
            Err(_) => return Ok(place),
        }
    }
    Ok(path)
}

/// Waits until the serving process has closed the store, so that the next command can open it.
pub(crate) fn wait_for(store: &Path, patience: Duration) -> Result<(), Failure> {
    let end = Instant::now() + patience;
    let options = open::options(&OpenArgs { backend: None, durability: None });
    while Instant::now() < end {
        match Store::options(store).read_only().open(&options) {
            Err(error) if error.kind() == ErrorKind::Busy => sleep(Duration::from_millis(5)),
            _ => return Ok(()),
        }
    }
    Err(Failure::InUse(format!("{}: unmounted, but the serving process has not closed the store", store.display())))
}
