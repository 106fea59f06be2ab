/* Files: the calls of a POSIX file system on a volume of persistent memory, without a mount and
 * without system calls, for C and C++. Link with -leverbyte.
 *
 *     eb_volume_make("home", 0);
 *     int root = eb_volume_open("home", 0);
 *     eb_mkdir("/notes", 0755);
 *     int fd = eb_open("/notes/today", O_CREAT | O_RDWR, 0644);
 *     eb_write(fd, "remember", 8);
 *     eb_fsync(fd);
 *     eb_close(fd);
 *     eb_volume_close(root);
 *
 * Conventions:
 *
 * 1. Calls. eb_NAME has the arguments, the flags and the result of the call NAME of Linux, except
 *    where its comment says more. eb_open and eb_openat always have a mode; it counts with O_CREAT
 *    and O_TMPFILE.
 * 2. Results. A call that fails returns -1, or NULL, sets errno to the number that Linux sets on a
 *    local file system, sets everbyte_error() (heapo.h), and changes nothing. EFAULT: a pointer is
 *    NULL. EBADF: a descriptor is not open. EUCLEAN: the volume is damaged (`everbyte fs fsck`
 *    tells which files). EIO: a write or a sync of the medium failed, now or earlier. EDQUOT,
 *    ENOSPC: the volume is full. EROFS: it may not be changed.
 * 3. The store. Volumes lie in the store of heapo.h, which the first call opens; it need not be
 *    bound to an address. One process at a time has a volume open.
 * 4. Descriptors. They are numbers of this library, 3 and above, and mean nothing to the system's
 *    calls; 0, 1, 2 and descriptors of the system are not valid here.
 * 5. Paths. A relative path begins in the directory of the descriptor, or in the working
 *    directory; an absolute one at the root of the volume of the working directory. Names are
 *    bytes other than 0 and `/`, at most 255, paths at most 4095.
 * 6. Durability. Each call is whole or absent after a crash. On pmem and shm its change is durable
 *    when it returns. On file it is durable after eb_fsync, eb_fdatasync or eb_syncfs, which
 *    settle all changes before, at the return of a write through a descriptor with O_SYNC or
 *    O_DSYNC, and at the return of each call of a volume that was opened with EB_SYNC.
 * 7. Users. Rights are those of the user of the caller: the effective user of the process, unless
 *    eb_set_user says otherwise. Within one store, rights prevent accidents, not attacks.
 * 8. Threads. THREADS: any, not from signal handlers.
 * 9. Fork. In a child of fork all calls fail with EPERM.
 *
 * Differences from Linux: a write is written whole or not at all; pipes, sockets and devices have
 * names and attributes and cannot be opened (ENXIO); locks hold among the threads and callers of
 * this process. */
#ifndef EVERBYTE_POSIX_H
#define EVERBYTE_POSIX_H

#include "heapo.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct file_handle;
struct statx;
struct timespec;

/* Flags of eb_volume_open. EB_STRICTATIME, EB_NOATIME and EB_NODIRATIME are the mount options of
 * these names; without them access times are relative. After a call has met damage, other files
 * can be used and changed; with EB_DAMAGE_READ_ONLY nothing can be changed, with EB_DAMAGE_STOP all
 * calls fail with EIO. EB_RELAXED: a write behind the end of a file, and a growth of its size, may
 * be lost with power although they have returned, the newest first, until a call settles them.
 * EB_PAGES_..: the pages of new files; without them those that the volume was made with. Stores of
 * this process to pages of the volume are faults outside of calls and mappings, by protection keys
 * or by mprotect; without EB_WINDOWS_.. by keys where the machine has them. */
enum {
    EB_READ_ONLY = 1,        /* changes fail with EROFS */
    EB_SYNC = 2,             /* each change is durable on return, on every medium */
    EB_STRICTATIME = 4,
    EB_NOATIME = 8,
    EB_NODIRATIME = 16,
    EB_DAMAGE_READ_ONLY = 32,
    EB_DAMAGE_STOP = 64,
    EB_RELAXED = 128,
    EB_PAGES_4K = 256,
    EB_PAGES_2M = 512,
    EB_PAGES_1G = 1024,
    EB_WINDOWS_KEYS = 2048,
    EB_WINDOWS_MPROTECT = 4096,
    EB_WINDOWS_OFF = 8192
};

/* Makes an empty volume that can grow to `size_max` bytes, rounded up to a power of two; 0: half of
 * the addresses of a store that has no other object, else the largest free range. Its root
 * directory belongs to the caller's user. Settled on return: after a crash the volume is whole or
 * absent.
 * Fails with EEXIST, EINVAL for an invalid name or size, ENOSPC. */
int eb_volume_make(const char *name, size_t size_max);

/* Opens a volume. Recovery undoes changes that a crash interrupted. The root becomes the working
 * directory of a caller that has none.
 * Returns a descriptor of the root directory, as O_PATH gives it: for eb_fchdir and the calls that
 * take a directory and a path. Fails with ENOENT, EPERM if the object is no volume, EBUSY if it is
 * open in this process or another one, EINVAL for unknown flags and for those that exclude each
 * other, EUCLEAN, EPROTONOSUPPORT for a volume of another Everbyte, ENOTSUP for EB_WINDOWS_KEYS on
 * a machine without them. */
int eb_volume_open(const char *name, int flags);

/* Closes the volume of the descriptor `root`, and that descriptor. Settled on return; the next
 * opening reads no file. Callers whose working directory lies in it have none afterwards. A volume
 * that is open when the process ends is closed then.
 * Fails with EBUSY if other descriptors or mappings of it are left, or another thread is in a call
 * on it. */
int eb_volume_close(int root);

/* Settles all changes of the volume of a descriptor that returned before. */
int eb_syncfs(int fd);

/* Figures of a volume: its blocks are those that it can grow to. */
int eb_statvfs(const char *path, struct statvfs *into);
int eb_fstatvfs(int fd, struct statvfs *into);

/* A caller: a user, a mask for new files, a working directory, and the owner of record locks, as a
 * process of the system has them. All threads use one caller, until they choose another one. */
typedef struct eb_process eb_process;

/* Makes a caller with the user, the mask and the working directory of the present one, and no
 * record locks: what fork makes. */
eb_process *eb_process_new(void);

/* Makes a caller that of this thread; NULL: the one that all threads begin with, which a thread
 * that is ending has. EPERM: the thread is ending, and has chosen one before. */
int eb_process_use(eb_process *process);

/* Gives a caller back; threads that use it keep it. NULL: does nothing. */
void eb_process_free(eb_process *process);

/* Sets the user, the group and `count` further groups of the caller. Open files stay open.
 * Fails with EINVAL for more than 65536 groups. */
int eb_set_user(uid_t user, gid_t group, const gid_t *groups, size_t count);

/* Sets the mask of the caller; it begins as 022. Returns the old one. */
mode_t eb_umask(mode_t mask);

/* Change the working directory, which may lie in another volume then. */
int eb_chdir(const char *path);
int eb_fchdir(int fd);

/* Stores the path of the working directory to `into`; it begins at the root of its volume.
 * Returns `into`. Fails with ERANGE if it does not fit, ENOENT if the directory was removed or
 * there is none. */
char *eb_getcwd(char *into, size_t room);

/* Open a file: the lowest free descriptor. Flags without a meaning here, such as O_CLOEXEC and
 * O_DIRECT, are ignored.
 * Fail with EMFILE for more than a million open files, and as open does. */
int eb_open(const char *path, int flags, mode_t mode);
int eb_openat(int fd, const char *path, int flags, mode_t mode);

/* Closes a descriptor. The record locks of its caller on the file end. A file without a name ends
 * with its last descriptor. */
int eb_close(int fd);

/* Another descriptor of the same open file. Record locks through it are those of the present
 * caller. */
int eb_dup(int fd);

/* The commands F_DUPFD, F_GETFL and F_SETFL (O_APPEND and O_NOATIME). Fails with EINVAL for
 * others. */
int eb_fcntl(int fd, int command, int argument);

/* Locks of whole files: the open file has them, with all descriptors of it. Fails with EAGAIN
 * (EWOULDBLOCK) with LOCK_NB, EINVAL. */
int eb_flock(int fd, int operation);

/* Locks of ranges: the commands F_SETLK, F_SETLKW, F_GETLK, whose locks have the caller that made
 * the descriptor as owner, and F_OFD_SETLK, F_OFD_SETLKW, F_OFD_GETLK, whose owner is the open
 * file. F_GETLK tells the number of this process in l_pid.
 * Fails with EAGAIN, EDEADLK if waiting would never end, EBADF if the file is not open for this,
 * EINVAL, EOVERFLOW. */
int eb_fcntl_lock(int fd, int command, struct flock *lock);

/* Read; return the number of bytes, which is less than asked for at the end of the file only.
 * pread and preadv keep the offset of the open file. Buffers of one call must not overlap; another
 * write may come between two of them. A call takes at most 2 GiB less a page, and 1024 buffers. */
ssize_t eb_read(int fd, void *into, size_t size);
ssize_t eb_pread(int fd, void *into, size_t size, off_t at);
ssize_t eb_readv(int fd, const struct iovec *buffers, int count);
ssize_t eb_preadv(int fd, const struct iovec *buffers, int count, off_t at);

/* Write; all bytes of a call are written or none, also after a crash. With O_APPEND each write goes
 * behind the end, in one step, and pwrite too, as on Linux. */
ssize_t eb_write(int fd, const void *bytes, size_t size);
ssize_t eb_pwrite(int fd, const void *bytes, size_t size, off_t at);
ssize_t eb_writev(int fd, const struct iovec *buffers, int count);
ssize_t eb_pwritev(int fd, const struct iovec *buffers, int count, off_t at);

/* Moves the offset of an open file; SEEK_DATA and SEEK_HOLE find holes. Returns the offset. */
off_t eb_lseek(int fd, off_t offset, int whence);

/* Settle the file, and all changes of its volume that returned before. */
int eb_fsync(int fd);
int eb_fdatasync(int fd);

/* Set the size of a regular file; what is added reads as zeros. */
int eb_truncate(const char *path, off_t size);
int eb_ftruncate(int fd, off_t size);

/* Gives pages to a range of a file, or takes them away. Modes are those of fallocate(2): 0, or with
 * the prefix FALLOC_FL_ KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, COLLAPSE_RANGE, INSERT_RANGE and
 * UNSHARE_RANGE.
 * Fails with EINVAL for an empty range and for modes that exclude each other, EOPNOTSUPP for an
 * unknown mode. */
int eb_fallocate(int fd, int mode, off_t at, off_t size);

/* Copies bytes of one file to another one of the same volume; whole pages are shared where both
 * offsets lie at the same place of a page. NULL for an offset: that of the open file. `flags` is 0.
 * Returns the number of bytes, less than `size` at the end of the source only. */
ssize_t eb_copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t size, unsigned flags);

/* FICLONE and FICLONERANGE: makes a range of `to` share the pages of a range of `from`, of whole
 * pages or up to its end; `size` 0: all up to the end. No byte is copied until one of the two is
 * written to. */
int eb_clone_range(int to, int from, off_t from_at, off_t size, off_t to_at);

/* Maps `size` bytes of a file from the offset `at` on, a multiple of 4096, for loads and stores on
 * the medium itself. The mapping keeps the file, and outlives the descriptor and the name.
 * `protection` is PROT_READ, PROT_WRITE or both. `flags` is MAP_SHARED (or MAP_SHARED_VALIDATE),
 * where a store is seen by the next read and a write by the next load, or MAP_PRIVATE, where stores
 * stay in the mapping; with MAP_POPULATE each page is touched at once, MAP_NORESERVE means nothing.
 * The library chooses the address; two mappings of one range may have the same one. A mapping
 * without PROT_WRITE must not be stored to, which the machine does not check.
 * The range ends in the last page of the file at most, and does not grow with the file; an access
 * beyond it reads other bytes, or is a fault. While the mapping lives, calls that would take its
 * pages (a smaller size, a hole, a range cut out or put in before them, O_TRUNC) fail with EBUSY.
 * Stores to a shared mapping are single words of 8 bytes to a crash, and no change together. On
 * pmem one is durable after eb_msync with MS_SYNC, or when the program has flushed and fenced it
 * itself; on shm it outlives the process at once, and no loss of power. On file a shared mapping
 * fails, since clean pages are dropped between calls, and a store by address could go with them; a
 * private mapping does not.
 * Returns MAP_FAILED on a failure: EACCES for a file that is not open for it, EINVAL for no bytes
 * and for MAP_FIXED and other flags (EOPNOTSUPP with MAP_SHARED_VALIDATE), ENODEV for a directory
 * and for a shared mapping on file, ENOSPC, ENXIO for a range behind the last page, EPERM for
 * PROT_EXEC, EROFS. */
void *eb_mmap(void *address, size_t size, int protection, int flags, int fd, off_t at);

/* Ends a mapping, which is given as a whole. Stores that were not synced are flushed, and durable
 * no later than the next change of the volume. Mappings that are left end with the process.
 * Fails with EINVAL if no mapping has this address and this size, and changes nothing then. */
int eb_munmap(void *address, size_t size);

/* Makes the stores of a mapping to a range durable (MS_SYNC), or starts to write them back and
 * orders them before all later stores of this thread (MS_ASYNC, or 0); sets the times of the file
 * with MS_SYNC. MS_INVALIDATE means nothing.
 * Fails with EINVAL for unknown flags, and an address that is no start of a page; ENOMEM for a
 * range that lies in no mapping; EIO. */
int eb_msync(void *address, size_t size, int flags);

/* The attributes of a file. st_dev tells volumes apart. fstatat and statx know AT_EMPTY_PATH and
 * AT_SYMLINK_NOFOLLOW; statx always stores all basic attributes and the time of birth (its struct
 * is that of <sys/stat.h> with _GNU_SOURCE). */
int eb_stat(const char *path, struct stat *into);
int eb_lstat(const char *path, struct stat *into);
int eb_fstat(int fd, struct stat *into);
int eb_fstatat(int fd, const char *path, struct stat *into, int flags);
int eb_statx(int fd, const char *path, int flags, unsigned mask, struct statx *into);

/* Ask for rights of the caller: F_OK, or R_OK, W_OK, X_OK. `flags` is 0 or AT_EACCESS. */
int eb_access(const char *path, int mode);
int eb_faccessat(int fd, const char *path, int mode, int flags);

/* Set the mode. `flags` is 0. */
int eb_chmod(const char *path, mode_t mode);
int eb_fchmod(int fd, mode_t mode);
int eb_fchmodat(int fd, const char *path, mode_t mode, int flags);

/* Set the owner and the group; -1 keeps one. fchownat knows AT_SYMLINK_NOFOLLOW and
 * AT_EMPTY_PATH. */
int eb_chown(const char *path, uid_t owner, gid_t group);
int eb_lchown(const char *path, uid_t owner, gid_t group);
int eb_fchown(int fd, uid_t owner, gid_t group);
int eb_fchownat(int fd, const char *path, uid_t owner, gid_t group, int flags);

/* Set the times of the last read and of the last change, to the nanosecond: two of them, each with
 * UTIME_NOW or UTIME_OMIT in place of nanoseconds; NULL: now. utimensat knows AT_SYMLINK_NOFOLLOW
 * and AT_EMPTY_PATH. */
int eb_utimensat(int fd, const char *path, const struct timespec *times, int flags);
int eb_futimens(int fd, const struct timespec *times);

/* Make a directory, or a file of another type. */
int eb_mkdir(const char *path, mode_t mode);
int eb_mkdirat(int fd, const char *path, mode_t mode);
int eb_mknod(const char *path, mode_t mode, dev_t device);
int eb_mknodat(int fd, const char *path, mode_t mode, dev_t device);

/* Make a symbolic link. */
int eb_symlink(const char *target, const char *path);
int eb_symlinkat(const char *target, int fd, const char *path);

/* Copy the target of a symbolic link to `into`, without a zero byte behind it, as far as it fits.
 * Return the number of bytes. */
ssize_t eb_readlink(const char *path, char *into, size_t room);
ssize_t eb_readlinkat(int fd, const char *path, char *into, size_t room);

/* Give a file one more name. linkat knows AT_SYMLINK_FOLLOW, and AT_EMPTY_PATH, which also gives a
 * name to a file that was opened with O_TMPFILE. Fail with EXDEV for two volumes. */
int eb_link(const char *from, const char *to);
int eb_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);

/* Remove a name. A file lives until its last name is gone and no descriptor has it open. rmdir, and
 * unlinkat with AT_REMOVEDIR, remove an empty directory. */
int eb_unlink(const char *path);
int eb_rmdir(const char *path);
int eb_unlinkat(int fd, const char *path, int flags);

/* Rename a file in one step. renameat2 knows RENAME_NOREPLACE, RENAME_EXCHANGE and
 * RENAME_WHITEOUT. Fail with EXDEV for two volumes. */
int eb_rename(const char *from, const char *to);
int eb_renameat(int from_fd, const char *from, int to_fd, const char *to);
int eb_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);

/* A stream of the names in a directory. THREADS: one at a time. */
typedef struct eb_dir eb_dir;

/* Open a stream, which has a descriptor of its own; fdopendir takes that of the program, which
 * eb_closedir closes then. */
eb_dir *eb_opendir(const char *path);
eb_dir *eb_fdopendir(int fd);

/* Returns the next name, valid until the next call on the stream; NULL at the end, with errno as it
 * was, or on a failure. A name that exists all the time is told once. */
struct dirent *eb_readdir(eb_dir *stream);

/* Places in a stream; a place stays valid as long as the directory exists. */
int64_t eb_telldir(eb_dir *stream);
void eb_seekdir(eb_dir *stream, int64_t place);
void eb_rewinddir(eb_dir *stream);

/* The descriptor of a stream. */
int eb_dirfd(eb_dir *stream);

/* Closes a stream and its descriptor; `stream` must not be used afterwards. */
int eb_closedir(eb_dir *stream);

/* Copy the value of an extended attribute, or the names of all of them, each with a zero byte
 * behind it, to `into`; `room` 0 asks for the size. The calls with an l take a symbolic link
 * itself. Return the number of bytes. Fail with ENODATA, ERANGE if it does not fit, EOPNOTSUPP for
 * a name outside of user., trusted., security. and system.posix_acl_. */
ssize_t eb_getxattr(const char *path, const char *name, void *into, size_t room);
ssize_t eb_lgetxattr(const char *path, const char *name, void *into, size_t room);
ssize_t eb_fgetxattr(int fd, const char *name, void *into, size_t room);
ssize_t eb_listxattr(const char *path, char *into, size_t room);
ssize_t eb_llistxattr(const char *path, char *into, size_t room);
ssize_t eb_flistxattr(int fd, char *into, size_t room);

/* Set an extended attribute; `flags` is 0, XATTR_CREATE or XATTR_REPLACE. Fail with EEXIST,
 * ENODATA, E2BIG for more than 64 KiB, EPERM, ENOSPC. */
int eb_setxattr(const char *path, const char *name, const void *value, size_t size, int flags);
int eb_lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags);
int eb_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags);

/* Remove an extended attribute. Fail with ENODATA. */
int eb_removexattr(const char *path, const char *name);
int eb_lremovexattr(const char *path, const char *name);
int eb_fremovexattr(int fd, const char *name);

/* Stores a handle of a file, which leads to it after renames and restarts, in 28 bytes, and the
 * number of its volume in this process to `volume` (may be NULL). Knows AT_EMPTY_PATH and
 * AT_SYMLINK_FOLLOW. The struct is that of <fcntl.h> with _GNU_SOURCE.
 * Fails with EOVERFLOW if the handle has less room, and stores the size then. */
int eb_name_to_handle_at(int fd, const char *path, struct file_handle *handle, int *volume, int flags);

/* Opens the file of a handle; `fd` is a descriptor of its volume, or AT_FDCWD. For root.
 * Fails with ESTALE if the file was removed or the volume is another one, EPERM, EINVAL. */
int eb_open_by_handle_at(int fd, const struct file_handle *handle, int flags);

#ifdef __cplusplus
}
#endif
#endif
