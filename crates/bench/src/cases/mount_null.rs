//! The FUSE server that does nothing, in a process of its own: what the protocol, the kernel and
//! the crate `fuser` cost. It has one file, `bytes`, of any content; files that are made have
//! numbers and nothing else. What the kernel may cache, and the number of threads, are those of a
//! mount of ours.

use super::Result;
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The hidden word that makes this program the server: `FOLDER`.
pub(super) const SERVER: &str = "__null_mount";
/// The name of the file that is there.
pub(super) const FILE: &str = "bytes";
/// Its size.
pub(super) const LEN: u64 = 64 << 20;

const CACHED: Duration = Duration::from_secs(365 * 24 * 3600);
const TRANSFER: u32 = 1 << 20;
static ZEROS: [u8; TRANSFER as usize] = [0; TRANSFER as usize];
const WANTED: [InitFlags; 9] = [
    InitFlags::FUSE_EXPORT_SUPPORT,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// The server's life, until it is unmounted or its starter ends.
///
/// # Errors
/// Errors of mounting.
pub(super) fn server(words: &[String]) -> Result {
    let [folder] = words else { return Err("a server is FOLDER".into()) };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("null".into()), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    config.n_threads = Some(cores);
    config.clone_fd = true;
    let session = Session::new(Null { next: AtomicU64::new(3) }, Path::new(folder), &config)?;
    super::mount_systems::ready(Path::new(folder));
    Ok(session.run()?)
}

struct Null {
    next: AtomicU64,
}

fn attributes(number: u64) -> FileAttr {
    let is_root = number == 1;
    FileAttr {
        ino: INodeNo(number),
        size: if number == 2 { LEN } else { 0 },
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_root { FileType::Directory } else { FileType::RegularFile },
        perm: if is_root { 0o755 } else { 0o644 },
        nlink: if number == 0 { 0 } else { 1 },
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Null {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in WANTED {
            let _ = config.add_capabilities(flag); // an older kernel lacks some
        }
        let _ = config.set_max_write(TRANSFER);
        let _ = config.set_max_readahead(TRANSFER).or_else(|most| config.set_max_readahead(most));
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        // Number 0: an absent name, which the kernel remembers.
        let number = if name == FILE { 2 } else { 0 };
        reply.entry(&CACHED, &attributes(number), Generation(0));
    }

    fn forget(&self, _request: &Request, _number: INodeNo, _count: u64) {}

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&CACHED, &attributes(number.0));
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _born: Option<SystemTime>,
        _told: Option<SystemTime>,
        _saved: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&CACHED, &attributes(number.0));
    }

    fn create(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let of = attributes(self.next.fetch_add(1, Ordering::Relaxed));
        reply.created(&CACHED, &of, Generation(0), FileHandle(of.ino.0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn unlink(&self, _request: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.ok();
    }

    fn open(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(number.0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&ZEROS[..size.min(TRANSFER) as usize]);
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        bytes: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.written(bytes.len() as u32);
    }

    fn flush(&self, _request: &Request, _number: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn opendir(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }
}
