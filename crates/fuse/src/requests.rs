//! The requests of the kernel, each one call of `everbyte-posix`.
//!
//! Invariants
//!   FU-2  The kernel may cache names, attributes, bytes and listings for as long as it likes: no
//!         request changes what it was not asked to change; other changes of files of the volume
//!         are told to the kernel after them ([`crate::MountedVolume::changed`]).
//!   FU-3  Rights are checked by the kernel, so that calls run with every right; files that they
//!         make belong to the caller.
//!   FU-8  A program loses its rights before its bytes change: neither a crash nor a full volume
//!         leaves other bytes with them.
//!
//! Threads: any number answer requests.

use crate::convert::{self, attributes, errno};
use crate::workers::Workers;
use everbyte_posix::{
    AllocateMode, At, Attributes, Errno as Refusal, Error, FileKind, Files, Ino, KnownFiles, OnlyClient, OpenFile,
    OpenFiles, OpenFlags, Process, RenameFlags, Result, Seek, SetXattr, User, further_groups,
};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags as KernelFlags, RenameFlags as KernelRename, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the kernel may cache (FU-2): for ever, in effect.
const CACHED: Duration = Duration::from_secs(365 * 24 * 3600);
/// Bytes of the largest read and write.
const TRANSFER: u32 = 1 << 20;
const SETGID: u16 = 0o2000;
/// Wanted of the kernel, each as far as it has it. Truncation in the request of opening
/// (`FUSE_ATOMIC_O_TRUNC`) is not: it comes before the kernel refuses a program that runs. Nor are
/// asynchronous requests for `O_DIRECT` (`FUSE_ASYNC_DIO`): when such a write has ended, the kernel
/// leaves the pages that a reader has cached meanwhile, and they stay stale (FU-2).
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

thread_local! {
    /// The bytes of a read on their way to the kernel.
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A volume that answers requests.
pub(crate) struct VolumeRequests {
    files: Files,
    _only: OnlyClient,
    /// Has every right (FU-3).
    root: Process,
    nodes: KnownFiles,
    pub(crate) open_files: OpenFiles,
    writeback: bool,
    workers: Workers,
}

impl VolumeRequests {
    pub(crate) fn new(files: Files, only: OnlyClient, writeback: bool, workers: Workers) -> Result<VolumeRequests> {
        Ok(VolumeRequests {
            root: files.process(User::root())?,
            files,
            _only: only,
            nodes: KnownFiles::default(),
            open_files: OpenFiles::default(),
            writeback,
            workers,
        })
    }

    /// The process that makes files for the caller of a request.
    fn maker(&self, request: &Request, mask: u32) -> Process {
        self.root.on_behalf_of(request.uid(), request.gid(), mask as u16)
    }

    fn open_file(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        self.open_files.get(handle.0)
    }

    fn keep(&self, file: OpenFile) -> FileHandle {
        FileHandle(self.open_files.keep(file))
    }

    fn attributes_of(&self, ino: Ino) -> Result<Attributes> {
        self.root.link_status(At::file(ino))
    }

    /// Counts one more answer that tells of a file (FU-1), and gives its attributes.
    fn tell(&self, ino: Ino) -> Result<Attributes> {
        self.nodes.told(self.files.volume(), ino)?;
        self.attributes_of(ino).inspect_err(|_| self.nodes.forget(ino, 1))
    }

    /// The file of a name, which its answer tells of.
    fn find(&self, parent: Ino, name: &[u8]) -> Result<Attributes> {
        if name == b"." {
            // A handle that outlived the kernel's memory of the file.
            return self.tell(parent);
        }
        loop {
            let found = self.root.link_status((parent, name))?;
            match self.tell(found.ino) {
                Ok(told) if told.generation == found.generation => return Ok(told),
                // The name was withdrawn meanwhile, and its number may have another file.
                Ok(told) => self.nodes.forget(told.ino, 1),
                Err(error) if error == Refusal::ESTALE => (),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the set-id bits from a program that a user is about to change (FU-8). The calls that
    /// change bytes take its capabilities.
    fn drop_set_ids(&self, request: &Request, ino: Ino) -> Result<()> {
        if request.uid() == 0 { Ok(()) } else { self.root.drop_privileges(At::file(ino), &self.caller(request, ino)?) }
    }

    /// The caller of a request, with its further groups if the file has a group's set-id bit.
    /// Requests do not tell them. Reading `/proc` does not wait here (FU-9): the caller is inside
    /// of a call that changes the file, so not of `execve(2)`.
    fn caller(&self, request: &Request, ino: Ino) -> Result<User> {
        let (mut user, file) = (User::new(request.uid(), request.gid()), self.files.volume().owner(ino)?);
        if file.permissions & SETGID != 0 && !user.is_in(file.gid) {
            user.groups = further_groups(request.pid());
        }
        Ok(user)
    }

    #[allow(clippy::too_many_arguments)]
    fn set(
        &self,
        request: &Request,
        ino: Ino,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        times: [Option<TimeOrNow>; 2],
    ) -> Result<Attributes> {
        if uid.is_some() || gid.is_some() {
            self.drop_set_ids(request, ino)?;
            self.root.set_link_owner(At::file(ino), uid, gid)?;
        }
        if [mode, uid, gid].iter().all(Option::is_none) && size.is_none() && times.iter().all(Option::is_none) {
            // On `chown` of neither user nor group, and before a write to a program with
            // capabilities.
            self.root.touch(At::file(ino), &self.caller(request, ino)?)?;
        }
        if let Some(mode) = mode {
            self.root.set_mode(At::file(ino), (mode & 0o7777) as u16)?;
        }
        if let Some(size) = size {
            self.drop_set_ids(request, ino)?;
            self.root.truncate(At::file(ino), size)?;
        }
        let [accessed, modified] = times.map(convert::new_time);
        self.root.set_link_times(At::file(ino), accessed, modified)?;
        self.attributes_of(ino)
    }

    /// The flags of an open file: the kernel itself puts appended bytes behind the end, truncates,
    /// and knows the type of the file.
    fn flags(flags: i32) -> OpenFlags {
        let of_kernel = OpenFlags::APPEND | OpenFlags::TRUNC | OpenFlags::DIRECTORY | OpenFlags::PATH;
        OpenFlags::from_bits_truncate(flags as u32) - of_kernel
    }

    fn open_number(&self, ino: Ino, flags: i32) -> Result<FileHandle> {
        let flags = VolumeRequests::flags(flags) - OpenFlags::CREAT - OpenFlags::EXCL;
        // An access mode of 3 gives no access; the kernel has checked both rights.
        let both = OpenFlags::WRONLY | OpenFlags::RDWR;
        let flags = if flags.contains(both) { flags - OpenFlags::WRONLY } else { flags };
        Ok(self.keep(self.root.open(At::file(ino), flags, 0)?))
    }

    fn create_file(
        &self,
        request: &Request,
        place: (Ino, &[u8]),
        mode: u32,
        umask: u32,
        flags: i32,
    ) -> Result<(Attributes, FileHandle)> {
        let flags = VolumeRequests::flags(flags) | OpenFlags::CREAT | OpenFlags::NOFOLLOW;
        let file = self.maker(request, umask).open(place, flags, (mode & 0o7777) as u16)?;
        let told = self.tell(file.ino())?;
        Ok((told, self.keep(file)))
    }

    fn write_to(&self, request: &Request, file: &OpenFile, at: u64, bytes: &[u8], flags: WriteFlags) -> Result<u32> {
        if flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            return Ok(file.write_back_at(bytes, at)? as u32);
        }
        if flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            self.drop_set_ids(request, file.ino())?;
        }
        Ok(file.write_at(bytes, at)? as u32)
    }

    fn list(&self, ino: Ino, cookie: u64, add: impl FnMut(&everbyte_posix::DirectoryEntry) -> bool) -> Result<()> {
        let directory = self.root.open(At::file(ino), OpenFlags::DIRECTORY, 0)?;
        directory.each_entry_from(cookie, add)
    }

    fn set_attribute(&self, request: &Request, ino: Ino, name: &[u8], value: &[u8], flags: i32) -> Result<()> {
        let mode = match flags & (libc::XATTR_CREATE | libc::XATTR_REPLACE) {
            0 => SetXattr::Any,
            libc::XATTR_CREATE => SetXattr::Create,
            _ => SetXattr::Replace,
        };
        self.root.set_xattr_for(&self.caller(request, ino)?, ino, name, value, mode)
    }
}

fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

fn generation(of: &Attributes) -> Generation {
    Generation(of.generation.into())
}

/// A reply that can refuse its request.
trait Refuse {
    fn refuse(self, errno: Errno);
}

macro_rules! replies_refuse {
    ($($reply:ident),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

replies_refuse!(ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry);
replies_refuse!(ReplyLseek, ReplyOpen, ReplyWrite, ReplyXattr);

/// Answers a request with the outcome of its call.
fn answer_with<R: Refuse, T>(reply: R, outcome: Result<T>, tell: impl FnOnce(R, T)) {
    match outcome {
        Ok(value) => tell(reply, value),
        Err(error) => reply.refuse(errno(&error)),
    }
}

fn answer(reply: ReplyEmpty, done: Result<()>) {
    answer_with(reply, done, |reply, ()| reply.ok());
}

fn answer_entry(reply: ReplyEntry, found: Result<Attributes>) {
    answer_with(reply, found, |reply, of| reply.entry(&CACHED, &attributes(&of), generation(&of)));
}

fn answer_attributes(reply: ReplyAttr, found: Result<Attributes>) {
    answer_with(reply, found, |reply, of| reply.attr(&CACHED, &attributes(&of)));
}

/// Answers with bytes of an attribute, or with their number where the caller asks for it.
fn answer_bytes(reply: ReplyXattr, found: Result<Vec<u8>>, room: u32) {
    answer_with(reply, found, |reply, bytes| match room as usize {
        0 => reply.size(bytes.len() as u32),
        room if bytes.len() > room => reply.error(Errno::ERANGE),
        _ => reply.data(&bytes),
    });
}

impl Filesystem for VolumeRequests {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let writeback = self.writeback.then_some(InitFlags::FUSE_WRITEBACK_CACHE);
        for flag in WANTED.into_iter().chain(writeback) {
            // An older kernel lacks some; the mount works without them.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(TRANSFER);
        let _ = config.set_max_readahead(TRANSFER).or_else(|most| config.set_max_readahead(most));
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn destroy(&mut self) {
        self.open_files.clear();
        self.nodes.clear();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.workers.turn(request.pid());
        match self.find(ino(parent), name.as_bytes()) {
            Err(error) if error == Refusal::ENOENT => reply.entry(&CACHED, &convert::absent(), Generation(0)),
            found => answer_entry(reply, found),
        }
    }

    fn forget(&self, request: &Request, number: INodeNo, count: u64) {
        let _turn = self.workers.turn(request.pid());
        self.nodes.forget(ino(number), count);
    }

    fn getattr(&self, request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.workers.turn(request.pid());
        answer_attributes(reply, self.attributes_of(ino(number)));
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _born: Option<SystemTime>,
        _told: Option<SystemTime>,
        _saved: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.workers.turn(request.pid());
        answer_attributes(reply, self.set(request, ino(number), mode, uid, gid, size, [accessed, modified]));
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        let _turn = self.workers.turn(request.pid());
        answer_with(reply, self.root.read_link(At::file(ino(number))), |reply, target| reply.data(&target));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.workers.turn(request.pid());
        let Some(kind) = FileKind::of_mode(mode as u16) else { return reply.error(Errno::EINVAL) };
        let (place, device) = ((ino(parent), name.as_bytes()), convert::device(device));
        let made = self.maker(request, umask).make_node(place, kind, (mode & 0o7777) as u16, device);
        answer_entry(reply, made.and_then(|made| self.tell(made)));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let _turn = self.workers.turn(request.pid());
        let place = (ino(parent), name.as_bytes());
        let made = self.maker(request, umask).make_directory(place, (mode & 0o7777) as u16);
        answer_entry(reply, made.and_then(|made| self.tell(made)));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.workers.disk_turn(request.pid());
        answer(reply, self.root.remove((ino(parent), name.as_bytes())));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.workers.turn(request.pid());
        answer(reply, self.root.remove_directory((ino(parent), name.as_bytes())));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _turn = self.workers.turn(request.pid());
        let (place, target) = ((ino(parent), name.as_bytes()), target.as_os_str().as_bytes());
        let made = self.maker(request, 0).make_link(target, place);
        answer_entry(reply, made.and_then(|made| self.tell(made)));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: KernelRename,
        reply: ReplyEmpty,
    ) {
        let _turn = self.workers.disk_turn(request.pid());
        let Some(flags) = RenameFlags::from_bits(flags.bits()) else { return reply.error(Errno::EINVAL) };
        let (from, to) = ((ino(parent), name.as_bytes()), (ino(new_parent), new_name.as_bytes()));
        answer(reply, self.maker(request, 0).rename(from, to, flags));
    }

    fn link(&self, request: &Request, number: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        let _turn = self.workers.turn(request.pid());
        let number = ino(number);
        let linked = self.root.link(At::file(number), (ino(new_parent), new_name.as_bytes()));
        answer_entry(reply, linked.and_then(|()| self.tell(number)));
    }

    fn open(&self, request: &Request, number: INodeNo, flags: KernelFlags, reply: ReplyOpen) {
        let _turn = self.workers.turn(request.pid());
        let opened = self.open_number(ino(number), flags.0);
        answer_with(reply, opened, |reply, handle| reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _turn = self.workers.turn(request.pid());
        let made = self.create_file(request, (ino(parent), name.as_bytes()), mode, umask, flags);
        answer_with(reply, made, |reply, (of, handle)| {
            reply.created(&CACHED, &attributes(&of), generation(&of), handle, FopenFlags::FOPEN_KEEP_CACHE);
        });
    }

    fn read(
        &self,
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: KernelFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _turn = self.workers.turn(request.pid());
        READ.with_borrow_mut(|bytes| {
            let len = size.min(TRANSFER) as usize;
            if bytes.len() < len {
                bytes.resize(len, 0);
            }
            let read = self.open_file(handle).and_then(|file| file.read_at(&mut bytes[..len], offset));
            answer_with(reply, read, |reply, read| reply.data(&bytes[..read]));
        });
    }

    fn write(
        &self,
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        _flags: KernelFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _turn = self.workers.turn(request.pid());
        let written = self.open_file(handle).and_then(|file| self.write_to(request, &file, offset, bytes, write_flags));
        answer_with(reply, written, ReplyWrite::written);
    }

    /// Closing a descriptor does nothing here; the kernel stops asking.
    fn flush(&self, request: &Request, _number: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        let _turn = self.workers.turn(request.pid());
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: KernelFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.workers.disk_turn(request.pid());
        self.open_files.close(handle.0);
        reply.ok();
    }

    fn fsync(&self, request: &Request, _number: INodeNo, handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        let _turn = self.workers.disk_turn(request.pid());
        answer(reply, self.open_file(handle).and_then(|file| file.sync()));
    }

    /// Directories are opened without a request; each listing opens its own.
    fn opendir(&self, request: &Request, _number: INodeNo, _flags: KernelFlags, reply: ReplyOpen) {
        let _turn = self.workers.turn(request.pid());
        reply.error(Errno::ENOSYS);
    }

    fn readdir(&self, request: &Request, number: INodeNo, _handle: FileHandle, cookie: u64, mut reply: ReplyDirectory) {
        let _turn = self.workers.turn(request.pid());
        let listed = self.list(ino(number), cookie, |entry| {
            reply.add(INodeNo(entry.ino.0), entry.next, convert::file_type(entry.kind), OsStr::from_bytes(&entry.name))
        });
        answer_with(reply, listed, |reply, ()| reply.ok());
    }

    fn readdirplus(
        &self,
        request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.workers.turn(request.pid());
        let listed = self.list(ino(number), cookie, |entry| {
            let is_dot = matches!(entry.name.as_slice(), b"." | b"..");
            // The kernel does not count the dots.
            let told = if is_dot { self.attributes_of(entry.ino) } else { self.tell(entry.ino) };
            let Ok(of) = told else { return false }; // removed meanwhile
            let (name, number) = (OsStr::from_bytes(&entry.name), INodeNo(entry.ino.0));
            let is_full = reply.add(number, entry.next, name, &CACHED, &attributes(&of), generation(&of));
            if is_full && !is_dot {
                self.nodes.forget(entry.ino, 1);
            }
            is_full
        });
        answer_with(reply, listed, |reply, ()| reply.ok());
    }

    fn fsyncdir(&self, request: &Request, _number: INodeNo, _handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        let _turn = self.workers.disk_turn(request.pid());
        answer(reply, self.files.sync());
    }

    fn statfs(&self, request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        let _turn = self.workers.turn(request.pid());
        let of = self.files.status();
        let (size, free) = (of.block_size as u32, of.free_blocks);
        // More inodes are made where none is free, one page for a number of them.
        let free_inodes = of.free_inodes + free;
        let inodes = of.inodes + free;
        reply.statfs(of.blocks, free, free, inodes, free_inodes, size, of.name_max as u32, size);
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.workers.turn(request.pid());
        answer(reply, self.set_attribute(request, ino(number), name.as_bytes(), value, flags));
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _turn = self.workers.turn(request.pid());
        answer_bytes(reply, self.root.link_xattr(At::file(ino(number)), name.as_bytes()), size);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.workers.turn(request.pid());
        let is_seen = |name: &Vec<u8>| request.uid() == 0 || !name.starts_with(b"trusted.");
        let names = self.root.link_xattrs(At::file(ino(number)));
        let ended = |name: Vec<u8>| name.into_iter().chain([0]);
        let joined = names.map(|names| names.into_iter().filter(is_seen).flat_map(ended).collect());
        answer_bytes(reply, joined, size);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.workers.turn(request.pid());
        answer(reply, self.root.remove_link_xattr(At::file(ino(number)), name.as_bytes()));
    }

    /// None is served: FUSE does not pass on the ones that a volume has a call for (`FICLONE`).
    fn ioctl(
        &self,
        request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _bytes: &[u8],
        _room: u32,
        reply: ReplyIoctl,
    ) {
        let _turn = self.workers.turn(request.pid());
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.workers.long_turn(request.pid());
        let mode = AllocateMode::from_bits_retain(mode as u32);
        let done = self.open_file(handle).and_then(|file| {
            self.drop_set_ids(request, ino(number))?;
            file.allocate(mode, offset, length)
        });
        answer(reply, done);
    }

    fn lseek(
        &self,
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _turn = self.workers.turn(request.pid());
        // As on Linux, an offset below zero is one beyond the end.
        let at = offset as u64;
        let sought = self.open_file(handle).and_then(|file| match whence {
            libc::SEEK_DATA => file.seek(Seek::Data(at)),
            libc::SEEK_HOLE => file.seek(Seek::Hole(at)),
            _ => Err(Error::from(Refusal::EINVAL)),
        });
        answer_with(reply, sought, |reply, at| reply.offset(at as i64));
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _from: INodeNo,
        from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _turn = self.workers.long_turn(request.pid());
        // The answer has 32 bits.
        let len = len.min(1 << 30);
        let copied = || {
            let (from_file, to_file) = (self.open_file(from_handle)?, self.open_file(to_handle)?);
            self.drop_set_ids(request, ino(to))?;
            Ok(from_file.copy_range(from_offset, &to_file, to_offset, len)? as u32)
        };
        answer_with(reply, copied(), ReplyWrite::written);
    }
}
