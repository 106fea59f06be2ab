/* The contract of posix.h, tried call by call. Usage: posix PART; exits with 0 if the header is
 * right. */
#define _GNU_SOURCE
#include "require.h"
#include <everbyte/posix.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* The call returns -1 with this errno, and sets a sentence. */
#define REFUSED(what, number) \
    (errno = 0, require((what) == -1 && errno == (number) && *everbyte_error(), #what, __LINE__))
/* The call returns 0. */
#define DONE(what) require((what) == 0, #what, __LINE__)

#define SIZE_MAX_OF_VOLUME (64u << 20)

static int root;
/* The volume of the part. */
static const char *volume;

static void begin(void) {
    DONE(eb_set_user(0, 0, NULL, 0));
    DONE(eb_volume_make(volume, SIZE_MAX_OF_VOLUME));
    MUST((root = eb_volume_open(volume, 0)) >= 3);
}

/* A file with these bytes. */
static int make(const char *path, const char *bytes) {
    int fd = eb_open(path, O_CREAT | O_RDWR, 0644);
    MUST(fd >= 3 && eb_write(fd, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
    return fd;
}

static int holds(int fd, const char *bytes) {
    char found[256];
    ssize_t len = eb_pread(fd, found, sizeof found, 0);
    return len == (ssize_t)strlen(bytes) && !memcmp(found, bytes, (size_t)len);
}

static int exists(const char *path) {
    struct stat status;
    return eb_lstat(path, &status) == 0;
}

static void volumes(void) {
    REFUSED(eb_volume_open(volume, 0), ENOENT);
    REFUSED(eb_open("/a", O_RDONLY, 0), ENOENT); /* no working directory */
    MUST(!eb_getcwd((char[8]){0}, 8) && errno == ENOENT);
    begin();
    REFUSED(eb_volume_make(volume, SIZE_MAX_OF_VOLUME), EEXIST);
    REFUSED(eb_volume_make("", SIZE_MAX_OF_VOLUME), EINVAL);
    REFUSED(eb_volume_make(NULL, 0), EFAULT);
    REFUSED(eb_volume_make("\xff", SIZE_MAX_OF_VOLUME), EINVAL);
    REFUSED(eb_volume_open(volume, 0), EBUSY);
    REFUSED(eb_volume_open(volume, 1 << 20), EINVAL);
    REFUSED(eb_volume_open(volume, EB_NOATIME | EB_STRICTATIME), EINVAL);
    REFUSED(eb_volume_open(volume, EB_DAMAGE_STOP | EB_DAMAGE_READ_ONLY), EINVAL);
    REFUSED(eb_volume_open(volume, EB_PAGES_2M | EB_PAGES_1G), EINVAL);
    REFUSED(eb_volume_open(volume, EB_WINDOWS_OFF | EB_WINDOWS_MPROTECT), EINVAL);
    REFUSED(eb_volume_open(NULL, 0), EFAULT);
    MUST(heapo_create("object") && heapo_unmap("object"));
    REFUSED(eb_volume_open("object", 0), EPERM);

    struct statvfs figures;
    DONE(eb_statvfs("/", &figures));
    MUST(figures.f_bsize == 4096 && figures.f_namemax == 255 && figures.f_bfree <= figures.f_blocks);
    MUST(figures.f_blocks * 4096 <= SIZE_MAX_OF_VOLUME && figures.f_flag == 0 && figures.f_bavail);
    DONE(eb_fstatvfs(root, &figures));
    REFUSED(eb_statvfs("/absent", &figures), ENOENT);
    REFUSED(eb_statvfs("/", NULL), EFAULT);
    REFUSED(eb_fstatvfs(0, &figures), EBADF);

    /* Two volumes: paths of one, descriptors of the other. */
    DONE(eb_volume_make("more", SIZE_MAX_OF_VOLUME));
    int more = eb_volume_open("more", EB_SYNC | EB_NODIRATIME);
    MUST(more > root);
    DONE(eb_mkdirat(more, "there", 0755));
    MUST(!exists("/there"));
    int here = make("/here", "1"), there = eb_openat(more, "there/file", O_CREAT | O_RDWR, 0600);
    MUST(there > here);
    REFUSED(eb_renameat(root, "here", more, "here"), EXDEV);
    REFUSED(eb_linkat(root, "here", more, "here", 0), EXDEV);
    REFUSED(eb_linkat(here, "", more, "here", AT_EMPTY_PATH), EXDEV);
    REFUSED(eb_copy_file_range(here, NULL, there, NULL, 1, 0), EXDEV);
    REFUSED(eb_clone_range(there, here, 0, 0, 0), EXDEV);
    struct stat one, other;
    MUST(!eb_fstat(here, &one) && !eb_fstat(there, &other) && one.st_dev != other.st_dev);
    DONE(eb_fchdir(more));
    MUST(exists("/there") && exists("there/file") && !exists("/here"));
    REFUSED(eb_volume_close(more), EBUSY); /* a file is open */
    DONE(eb_close(there));
    DONE(eb_syncfs(more));
    DONE(eb_volume_close(more));
    REFUSED(eb_volume_close(more), EBADF);
    REFUSED(eb_stat("/there", &one), ENOENT); /* no working directory */
    DONE(eb_fchdir(root));
    MUST(exists("/here"));
    MUST((more = eb_volume_open("more", EB_READ_ONLY)) >= 3);
    MUST(!eb_fstatat(more, "there/file", &one, 0) && !eb_fstatvfs(more, &figures) && figures.f_flag == ST_RDONLY);
    REFUSED(eb_mkdirat(more, "new", 0755), EROFS);
    DONE(eb_volume_close(more));

    /* Options of opening: new files have large pages, and stray stores are faults. */
    MUST((more = eb_volume_open("more", EB_RELAXED | EB_PAGES_2M | EB_WINDOWS_MPROTECT)) >= 3);
    MUST((there = eb_openat(more, "large", O_CREAT | O_RDWR, 0600)) >= 3);
    static char block[4096];
    MUST(eb_write(there, block, sizeof block) == sizeof block && !eb_fsync(there));
    MUST(!eb_fstat(there, &one) && one.st_blocks * 512 == 2 << 20 && one.st_size == sizeof block);
    DONE(eb_close(there));
    DONE(eb_volume_close(more));
    more = eb_volume_open("more", EB_WINDOWS_KEYS | EB_PAGES_4K);
    MUST(more == -1 ? errno == ENOTSUP && strstr(everbyte_error(), "protection keys") : !eb_volume_close(more));

    REFUSED(eb_syncfs(99), EBADF);
    DONE(eb_syncfs(here));
    DONE(eb_close(here));
    REFUSED(eb_close(here), EBADF);
    REFUSED(eb_close(-1), EBADF);
    REFUSED(eb_close(1), EBADF); /* the system's */
    REFUSED(eb_close(INT_MAX), EBADF);
    DONE(eb_volume_close(root));
}

static void bytes(void) {
    begin();
    char found[64];
    int fd = make("/file", "hello");
    MUST(holds(fd, "hello") && eb_read(fd, found, 5) == 0);
    MUST(eb_lseek(fd, 1, SEEK_SET) == 1 && eb_read(fd, found, 3) == 3 && !memcmp(found, "ell", 3));
    MUST(eb_lseek(fd, 0, SEEK_CUR) == 4 && eb_lseek(fd, 2, SEEK_END) == 7);
    REFUSED(eb_lseek(fd, -1, SEEK_SET), EINVAL);
    REFUSED(eb_lseek(fd, 0, 77), EINVAL);
    MUST(eb_pwrite(fd, "HE", 2, 0) == 2 && holds(fd, "HEllo"));
    REFUSED(eb_pwrite(fd, "x", 1, -1), EINVAL);
    REFUSED(eb_pread(fd, found, 1, -1), EINVAL);
    REFUSED(eb_read(fd, NULL, 1), EFAULT);
    REFUSED(eb_write(fd, NULL, 1), EFAULT);
    MUST(eb_read(fd, NULL, 0) == 0 && eb_write(fd, NULL, 0) == 0);
    REFUSED(eb_read(0, found, 1), EBADF);
    REFUSED(eb_write(root, "x", 1), EBADF);

    DONE(eb_ftruncate(fd, 0));
    MUST(eb_lseek(fd, 0, SEEK_SET) == 0);
    struct iovec parts[2] = {{"ab", 2}, {"cde", 3}};
    MUST(eb_writev(fd, parts, 2) == 5 && eb_writev(fd, parts, 1) == 2 && holds(fd, "abcdeab"));
    MUST(eb_pwritev(fd, parts, 2, 1) == 5 && holds(fd, "aabcdeb"));
    char one[3], two[10];
    struct iovec rooms[2] = {{one, 3}, {two, 10}};
    MUST(eb_lseek(fd, 0, SEEK_SET) == 0 && eb_readv(fd, rooms, 2) == 7);
    MUST(!memcmp(one, "aab", 3) && !memcmp(two, "cdeb", 4) && eb_lseek(fd, 0, SEEK_CUR) == 7);
    MUST(eb_preadv(fd, rooms, 2, 5) == 2 && !memcmp(one, "eb", 2));
    MUST(eb_readv(fd, rooms, 0) == 0 && eb_writev(fd, NULL, 0) == 0);
    REFUSED(eb_readv(fd, NULL, 1), EFAULT);
    REFUSED(eb_readv(fd, rooms, -1), EINVAL);
    REFUSED(eb_writev(fd, parts, 1025), EINVAL);
    struct iovec huge[2] = {{one, SIZE_MAX}, {two, 2}};
    REFUSED(eb_preadv(fd, huge, 2, 0), EINVAL);
    struct iovec null[1] = {{NULL, 1}};
    REFUSED(eb_pwritev(fd, null, 1, 0), EFAULT);

    /* A hole of 64 KiB between data. */
    DONE(eb_ftruncate(fd, 0));
    MUST(eb_pwrite(fd, "x", 1, 0) == 1 && eb_pwrite(fd, "y", 1, 1 << 16) == 1);
    MUST(eb_lseek(fd, 1, SEEK_DATA) >= 1 && eb_lseek(fd, 0, SEEK_HOLE) == 4096);
    MUST(eb_lseek(fd, 4096, SEEK_DATA) == 1 << 16);
    REFUSED(eb_lseek(fd, 1 << 20, SEEK_DATA), ENXIO);
    REFUSED(eb_lseek(fd, -1, SEEK_HOLE), ENXIO);
    struct stat status;
    DONE(eb_fallocate(fd, 0, 4096, 8192));
    MUST(!eb_fstat(fd, &status) && status.st_blocks == 4 * 8 && status.st_size == (1 << 16) + 1);
    DONE(eb_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8192));
    DONE(eb_fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 1));
    DONE(eb_fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 4096, 4096));
    DONE(eb_fallocate(fd, FALLOC_FL_INSERT_RANGE, 4096, 4096));
    MUST(eb_pread(fd, found, 1, 0) == 1 && found[0] == 0 && eb_pread(fd, found, 1, 1 << 16) == 1 && found[0] == 'y');
    REFUSED(eb_fallocate(fd, 0, -1, 5), EINVAL);
    REFUSED(eb_fallocate(fd, 0, 0, 0), EINVAL);
    REFUSED(eb_fallocate(fd, 1 << 30, 0, 1), EOPNOTSUPP);

    /* Copies and clones. */
    int copy = eb_open("/copy", O_CREAT | O_RDWR, 0644);
    off_t from_at = 1 << 16, to_at = 2;
    MUST(eb_copy_file_range(fd, &from_at, copy, &to_at, 100, 0) == 1 && from_at == (1 << 16) + 1 && to_at == 3);
    MUST(eb_pread(copy, found, 3, 0) == 3 && found[2] == 'y' && eb_lseek(copy, 0, SEEK_CUR) == 0);
    MUST(eb_lseek(fd, 1 << 16, SEEK_SET) == 1 << 16 && eb_copy_file_range(fd, NULL, copy, NULL, 1, 0) == 1);
    MUST(eb_lseek(copy, 0, SEEK_CUR) == 1 && eb_lseek(fd, 0, SEEK_CUR) == (1 << 16) + 1);
    REFUSED(eb_copy_file_range(fd, NULL, copy, NULL, 1, 1), EINVAL);
    REFUSED(eb_copy_file_range(fd, NULL, -3, NULL, 1, 0), EBADF);
    DONE(eb_clone_range(copy, fd, 0, 0, 0));
    MUST(!eb_fstat(copy, &status) && status.st_size == (1 << 16) + 1);
    REFUSED(eb_clone_range(copy, fd, 1, 0, 0), EINVAL);
    REFUSED(eb_clone_range(copy, fd, -1, 0, 0), EINVAL);
    DONE(eb_close(copy));

    DONE(eb_truncate("/copy", 3));
    MUST(!eb_stat("/copy", &status) && status.st_size == 3);
    REFUSED(eb_truncate("/copy", -1), EINVAL);
    REFUSED(eb_truncate("/absent", 1), ENOENT);
    REFUSED(eb_ftruncate(fd, -1), EINVAL);
    REFUSED(eb_ftruncate(root, 1), EBADF);
    DONE(eb_fsync(fd));
    DONE(eb_fdatasync(fd));
    REFUSED(eb_fsync(root), EBADF);
    DONE(eb_close(fd));

    /* Appending, and flags. */
    fd = make("/log", "1");
    MUST(eb_fcntl(fd, F_GETFL, 0) == O_RDWR && eb_fcntl(fd, F_SETFL, O_APPEND) == 0);
    MUST(eb_fcntl(fd, F_GETFL, 0) == (O_RDWR | O_APPEND));
    MUST(eb_pwrite(fd, "2", 1, 0) == 1 && holds(fd, "12"));
    int twin = eb_dup(fd);
    MUST(twin > fd && eb_lseek(twin, 1, SEEK_SET) == 1 && eb_read(fd, found, 9) == 1 && found[0] == '2');
    MUST(eb_fcntl(fd, F_DUPFD, 40) == 40 && eb_fcntl(fd, F_DUPFD, 40) == 41 && holds(41, "12"));
    REFUSED(eb_fcntl(fd, F_DUPFD, -1), EINVAL);
    REFUSED(eb_fcntl(fd, F_DUPFD, 1 << 20), EINVAL);
    REFUSED(eb_fcntl(fd, F_GETOWN, 0), EINVAL);
    REFUSED(eb_fcntl(root, F_SETFL, O_APPEND), EBADF);
    REFUSED(eb_fcntl(77, F_GETFL, 0), EBADF);
    REFUSED(eb_dup(77), EBADF);
    MUST(!eb_close(40) && !eb_close(41) && !eb_close(twin) && !eb_close(fd));

    REFUSED(eb_open("/log", O_CREAT | O_EXCL | O_RDWR, 0644), EEXIST);
    REFUSED(eb_open("/none", O_RDONLY, 0), ENOENT);
    REFUSED(eb_open("/", O_RDWR, 0), EISDIR);
    REFUSED(eb_open(NULL, O_RDONLY, 0), EFAULT);
    REFUSED(eb_open("", O_RDONLY, 0), ENOENT);
    REFUSED(eb_openat(99, "log", O_RDONLY, 0), EBADF);
    char longest[PATH_MAX + 2];
    memset(longest, 'x', sizeof longest), longest[sizeof longest - 1] = 0;
    REFUSED(eb_open(longest, O_CREAT | O_RDWR, 0644), ENAMETOOLONG);
    longest[256] = 0;
    REFUSED(eb_open(longest, O_CREAT | O_RDWR, 0644), ENAMETOOLONG);
    longest[255] = 0;
    MUST((fd = eb_open(longest, O_CREAT | O_RDWR, 0644)) >= 3 && !eb_close(fd));
    MUST((fd = eb_open("/log", O_RDONLY | O_TRUNC, 0)) >= 3 && holds(fd, ""));
    REFUSED(eb_write(fd, "x", 1), EBADF);
    DONE(eb_close(fd));
    DONE(eb_volume_close(root));
    /* The file has the bytes that were written. */
    MUST((root = eb_volume_open(volume, EB_SYNC)) >= 3);
    MUST((fd = eb_openat(root, "copy", O_RDONLY, 0)) >= 3 && !eb_close(fd));
    DONE(eb_volume_close(root));
}

static void names(void) {
    begin();
    char text[32];
    DONE(eb_mkdir("/dir", 0777));
    DONE(eb_mkdirat(root, "dir/sub", 01770));
    struct stat status, other;
    MUST(!eb_stat("/dir", &status) && status.st_mode == (S_IFDIR | 0755) && status.st_nlink == 3);
    MUST(!eb_fstatat(root, "dir/sub", &other, 0) && other.st_mode == (S_IFDIR | 01750) && other.st_ino != status.st_ino);
    REFUSED(eb_mkdir("/dir", 0777), EEXIST);
    DONE(eb_close(make("/dir/a", "a")));
    DONE(eb_link("/dir/a", "/dir/b"));
    MUST(!eb_stat("/dir/b", &status) && status.st_nlink == 2 && status.st_size == 1);
    DONE(eb_symlink("dir/a", "/link"));
    DONE(eb_symlinkat("../link", root, "dir/link"));
    MUST(eb_readlink("/link", text, sizeof text) == 5 && !memcmp(text, "dir/a", 5));
    MUST(eb_readlinkat(root, "dir/link", text, 2) == 2 && !memcmp(text, "..", 2));
    REFUSED(eb_readlink("/dir", text, 5), EINVAL);
    REFUSED(eb_readlink("/link", text, 0), EINVAL);
    REFUSED(eb_readlink("/link", NULL, 5), EFAULT);
    REFUSED(eb_symlink("", "/empty"), ENOENT);
    REFUSED(eb_symlink(NULL, "/empty"), EFAULT);
    MUST(!eb_stat("/dir/link", &status) && S_ISREG(status.st_mode) && !eb_lstat("/link", &status) && S_ISLNK(status.st_mode));
    DONE(eb_linkat(root, "link", root, "hard", 0));
    MUST(!eb_lstat("/hard", &status) && S_ISLNK(status.st_mode));
    DONE(eb_linkat(root, "link", root, "followed", AT_SYMLINK_FOLLOW));
    MUST(!eb_lstat("/followed", &status) && S_ISREG(status.st_mode) && status.st_nlink == 3);
    REFUSED(eb_linkat(root, "link", root, "more", 1), EINVAL);

    int unnamed = eb_open("/dir", O_TMPFILE | O_RDWR, 0600);
    MUST(unnamed >= 3 && eb_write(unnamed, "u", 1) == 1);
    DONE(eb_linkat(unnamed, "", root, "named", AT_EMPTY_PATH));
    MUST(!eb_stat("/named", &status) && status.st_size == 1 && !eb_close(unnamed));

    DONE(eb_rename("/dir/a", "/dir/c"));
    DONE(eb_renameat(root, "dir/c", root, "dir/a"));
    REFUSED(eb_renameat2(root, "dir/a", root, "named", RENAME_NOREPLACE), EEXIST);
    DONE(eb_renameat2(root, "dir/a", root, "named", RENAME_EXCHANGE));
    MUST(!eb_stat("/dir/a", &status) && status.st_nlink == 1);
    REFUSED(eb_renameat2(root, "dir/a", root, "named", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
    REFUSED(eb_renameat2(root, "dir/a", root, "named", 1u << 20), EINVAL);
    REFUSED(eb_rename("/dir", "/dir/sub/below"), EINVAL);
    REFUSED(eb_rename("/absent", "/x"), ENOENT);
    DONE(eb_renameat2(root, "named", root, "moved", RENAME_WHITEOUT));
    MUST(!eb_lstat("/named", &status) && S_ISCHR(status.st_mode) && status.st_rdev == 0);

    DONE(eb_mknod("/pipe", S_IFIFO | 0600, 0));
    DONE(eb_mknodat(root, "plain", 0600, 0));
    MUST(!eb_stat("/pipe", &status) && S_ISFIFO(status.st_mode) && !eb_stat("/plain", &status) && S_ISREG(status.st_mode));
    DONE(eb_mknod("/device", S_IFBLK | 0600, 0x802));
    MUST(!eb_stat("/device", &status) && S_ISBLK(status.st_mode) && status.st_rdev == 0x802);
    REFUSED(eb_open("/pipe", O_RDONLY, 0), ENXIO);
    REFUSED(eb_mknod("/what", 0070000 | 0600, 0), EINVAL);
    REFUSED(eb_mknod("/what", S_IFDIR | 0600, 0), EPERM);

    REFUSED(eb_unlink("/dir"), EISDIR);
    REFUSED(eb_rmdir("/dir"), ENOTEMPTY);
    REFUSED(eb_rmdir("/link"), ENOTDIR);
    REFUSED(eb_unlinkat(root, "dir", 5), EINVAL);
    DONE(eb_unlinkat(root, "dir/sub", AT_REMOVEDIR));
    int open = eb_open("/dir/b", O_RDONLY, 0);
    MUST(open >= 3 && !eb_unlink("/dir/b") && !eb_unlinkat(root, "followed", 0) && !exists("/dir/b") && holds(open, "a"));
    DONE(eb_close(open));

    /* Working directories. */
    char path[16];
    DONE(eb_chdir("dir"));
    MUST(eb_getcwd(path, sizeof path) == path && !strcmp(path, "/dir") && exists("a") && !exists("plain"));
    MUST(!eb_getcwd(path, 4) && errno == ERANGE);
    MUST(!eb_getcwd(NULL, 100) && errno == EFAULT);
    REFUSED(eb_chdir("a"), ENOTDIR);
    REFUSED(eb_chdir("absent"), ENOENT);
    DONE(eb_fchdir(root));
    MUST(eb_getcwd(path, 2) == path && !strcmp(path, "/"));
    REFUSED(eb_fchdir(77), EBADF);

    /* Streams. */
    eb_dir *stream = eb_opendir("/dir");
    struct dirent *entry;
    int count = 0;
    int64_t second = 0;
    char at_second[256] = "";
    MUST(stream && eb_dirfd(stream) >= 3);
    errno = 0;
    while ((entry = eb_readdir(stream))) {
        if (++count == 1) second = eb_telldir(stream);
        if (count == 2) strcpy(at_second, entry->d_name);
        MUST(entry->d_ino && (entry->d_type == DT_DIR) == (entry->d_name[0] == '.'));
    }
    MUST(count == 4 && errno == 0); /* ., .., a, link */
    eb_seekdir(stream, second);
    MUST((entry = eb_readdir(stream)) && !strcmp(entry->d_name, at_second));
    eb_rewinddir(stream);
    MUST((entry = eb_readdir(stream)) && !strcmp(entry->d_name, ".") && entry->d_type == DT_DIR);
    DONE(eb_closedir(stream));
    REFUSED(eb_closedir(NULL), EFAULT);
    MUST(!eb_readdir(NULL) && errno == EFAULT);
    REFUSED(eb_telldir(NULL), EFAULT);
    REFUSED(eb_dirfd(NULL), EFAULT);
    MUST(!eb_opendir("/plain") && errno == ENOTDIR);
    MUST(!eb_fdopendir(77) && errno == EBADF);
    open = eb_open("/plain", O_RDONLY, 0);
    MUST(!eb_fdopendir(open) && errno == ENOTDIR && !eb_close(open));
    open = eb_openat(root, "dir", O_RDONLY | O_DIRECTORY, 0);
    MUST((stream = eb_fdopendir(open)) && eb_dirfd(stream) == open && eb_readdir(stream) && !eb_closedir(stream));
    REFUSED(eb_close(open), EBADF);
    /* Names of every byte, more of them than are read at once. */
    DONE(eb_mkdir("/many", 0755));
    for (int i = 1; i < 256; i++) {
        char name[] = {'/', 'm', 'a', 'n', 'y', '/', (char)i, 'x', 0};
        if (i != '/') DONE(eb_mknod(name, 0644, 0));
    }
    stream = eb_opendir("/many");
    for (count = 0; eb_readdir(stream);) count++;
    MUST(count == 256 && !eb_closedir(stream));
    DONE(eb_volume_close(root));
}

static void attributes(void) {
    begin();
    int fd = make("/file", "abc");
    struct stat status;
    DONE(eb_chmod("/file", 04640));
    MUST(!eb_fstat(fd, &status) && status.st_mode == (S_IFREG | 04640) && status.st_blksize == 4096);
    DONE(eb_fchmod(fd, 0600));
    DONE(eb_fchmodat(root, "file", 0644, 0));
    REFUSED(eb_fchmodat(root, "file", 0644, AT_SYMLINK_NOFOLLOW), EINVAL);
    DONE(eb_chown("/file", 7, 8));
    DONE(eb_fchown(fd, 9, (gid_t)-1));
    MUST(!eb_stat("/file", &status) && status.st_uid == 9 && status.st_gid == 8);
    DONE(eb_symlink("file", "/link"));
    DONE(eb_lchown("/link", 5, 6));
    DONE(eb_fchownat(root, "link", 1, 2, 0));
    MUST(!eb_lstat("/link", &status) && status.st_uid == 5 && !eb_stat("/link", &status) && status.st_uid == 1);
    DONE(eb_fchownat(root, "link", 3, 4, AT_SYMLINK_NOFOLLOW));
    MUST(!eb_fstatat(root, "link", &status, AT_SYMLINK_NOFOLLOW) && status.st_uid == 3 && status.st_gid == 4);
    DONE(eb_fchownat(fd, "", 0, 0, AT_EMPTY_PATH));
    MUST(!eb_fstatat(fd, "", &status, AT_EMPTY_PATH) && status.st_uid == 0);
    REFUSED(eb_fchownat(root, "link", 1, 1, 1), EINVAL);
    REFUSED(eb_fstatat(root, "link", &status, 1), EINVAL);
    REFUSED(eb_stat("/file", NULL), EFAULT);
    REFUSED(eb_fstat(77, &status), EBADF);
    REFUSED(eb_fstat(fd, NULL), EFAULT);
    REFUSED(eb_fchmod(77, 0), EBADF);
    REFUSED(eb_fchown(77, 0, 0), EBADF);

    struct timespec times[2] = {{-5, 1}, {1000, 999999999}};
    DONE(eb_utimensat(root, "file", times, 0));
    MUST(!eb_stat("/file", &status) && status.st_atim.tv_sec == -5 && status.st_atim.tv_nsec == 1);
    MUST(status.st_mtim.tv_sec == 1000 && status.st_mtim.tv_nsec == 999999999);
    struct timespec keep[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    DONE(eb_futimens(fd, keep));
    MUST(!eb_stat("/file", &status) && status.st_atim.tv_sec == -5 && status.st_mtim.tv_sec > 1000000);
    DONE(eb_utimensat(root, "link", times, AT_SYMLINK_NOFOLLOW));
    MUST(!eb_lstat("/link", &status) && status.st_mtim.tv_sec == 1000);
    DONE(eb_utimensat(fd, "", times, AT_EMPTY_PATH));
    DONE(eb_futimens(fd, NULL));
    struct timespec bad[2] = {{0, 1000000000}, {0, 0}};
    REFUSED(eb_utimensat(root, "file", bad, 0), EINVAL);
    REFUSED(eb_utimensat(root, "file", times, 1), EINVAL);
    REFUSED(eb_futimens(77, times), EBADF);
    struct statx more;
    DONE(eb_statx(root, "file", AT_STATX_DONT_SYNC, STATX_ALL, &more));
    MUST((more.stx_mask & STATX_BTIME) && more.stx_btime.tv_sec > 1000000 && more.stx_size == 3 && more.stx_mode == (S_IFREG | 0644));
    DONE(eb_statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more));
    DONE(eb_statx(AT_FDCWD, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more));
    MUST(S_ISDIR(more.stx_mode));
    REFUSED(eb_statx(root, "file", 1, 0, &more), EINVAL);
    REFUSED(eb_statx(root, "file", 0, 0, NULL), EFAULT);

    /* Users. */
    DONE(eb_close(make("/secret", "s")));
    DONE(eb_chmod("/secret", 0640));
    MUST(eb_umask(077) == 022 && eb_umask(027) == 077);
    DONE(eb_access("/secret", R_OK | W_OK));
    REFUSED(eb_access("/secret", X_OK), EACCES);
    REFUSED(eb_access("/absent", F_OK), ENOENT);
    REFUSED(eb_access("/secret", 8), EINVAL);
    gid_t groups[] = {60, 0};
    DONE(eb_set_user(50, 51, groups, 2));
    DONE(eb_access("/secret", R_OK));
    DONE(eb_faccessat(root, "secret", F_OK, AT_EACCESS));
    REFUSED(eb_faccessat(root, "secret", F_OK, AT_SYMLINK_FOLLOW), EINVAL);
    REFUSED(eb_access("/secret", W_OK), EACCES);
    DONE(eb_set_user(50, 51, NULL, 0));
    REFUSED(eb_open("/secret", O_RDONLY, 0), EACCES);
    REFUSED(eb_chown("/secret", 50, 51), EPERM);
    REFUSED(eb_mkdir("/mine", 0777), EACCES);
    REFUSED(eb_set_user(1, 1, NULL, 1), EFAULT);
    REFUSED(eb_set_user(1, 1, groups, 70000), EINVAL);
    eb_process *other = eb_process_new();
    DONE(eb_process_use(other));
    DONE(eb_set_user(0, 0, NULL, 0));
    DONE(eb_mkdir("/shared", 0777));
    DONE(eb_chdir("/shared"));
    DONE(eb_chmod(".", 0777));
    DONE(eb_process_use(NULL));
    REFUSED(eb_mkdir("/mine", 0777), EACCES); /* still the user 50 */
    DONE(eb_mkdir("/shared/mine", 0777));
    MUST(!eb_stat("/shared/mine", &status) && status.st_uid == 50 && status.st_mode == (S_IFDIR | 0750));
    DONE(eb_process_use(other));
    eb_process_free(other); /* this thread keeps it */
    MUST(exists("mine"));
    DONE(eb_process_use(NULL));
    MUST(!exists("mine"));
    eb_process_free(NULL);
    DONE(eb_set_user(0, 0, NULL, 0));

    /* Extended attributes. */
    char value[64];
    DONE(eb_setxattr("/file", "user.one", "1", 1, XATTR_CREATE));
    REFUSED(eb_setxattr("/file", "user.one", "1", 1, XATTR_CREATE), EEXIST);
    REFUSED(eb_fsetxattr(fd, "user.two", "1", 1, XATTR_REPLACE), ENODATA);
    REFUSED(eb_setxattr("/file", "user.two", "1", 1, XATTR_REPLACE | XATTR_CREATE), EINVAL);
    REFUSED(eb_setxattr("/file", "user.two", "1", 1, 8), EINVAL);
    REFUSED(eb_setxattr("/file", "user.two", NULL, 1, 0), EFAULT);
    REFUSED(eb_setxattr("/file", NULL, "1", 1, 0), EFAULT);
    REFUSED(eb_setxattr("/file", "nowhere.two", "1", 1, 0), EOPNOTSUPP);
    DONE(eb_fsetxattr(fd, "user.two", "", 0, 0));
    DONE(eb_lsetxattr("/link", "trusted.link", "l", 1, 0));
    MUST(eb_getxattr("/link", "user.one", value, sizeof value) == 1 && value[0] == '1');
    MUST(eb_fgetxattr(fd, "user.two", NULL, 0) == 0 && eb_lgetxattr("/link", "trusted.link", value, 9) == 1);
    REFUSED(eb_getxattr("/file", "user.three", value, 9), ENODATA);
    MUST(eb_listxattr("/file", NULL, 0) == 18 && eb_flistxattr(fd, value, sizeof value) == 18);
    MUST(!memcmp(value, "user.one\0user.two\0", 18) || !memcmp(value, "user.two\0user.one\0", 18));
    MUST(eb_llistxattr("/link", value, sizeof value) == 13);
    REFUSED(eb_listxattr("/file", value, 5), ERANGE);
    REFUSED(eb_listxattr("/file", NULL, 50), EFAULT);
    REFUSED(eb_flistxattr(77, value, 5), EBADF);
    DONE(eb_removexattr("/file", "user.one"));
    REFUSED(eb_fremovexattr(fd, "user.one"), ENODATA);
    DONE(eb_fremovexattr(fd, "user.two"));
    DONE(eb_lremovexattr("/link", "trusted.link"));

    /* Handles. */
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + 64];
    } held = {.handle.handle_bytes = 4};
    int number = 0;
    REFUSED(eb_name_to_handle_at(root, "file", &held.handle, &number, 0), EOVERFLOW);
    MUST(held.handle.handle_bytes == 28);
    DONE(eb_name_to_handle_at(root, "link", &held.handle, &number, AT_SYMLINK_FOLLOW));
    DONE(eb_rename("/file", "/renamed"));
    int again = eb_open_by_handle_at(root, &held.handle, O_RDONLY);
    MUST(number > 0 && again >= 3 && holds(again, "abc") && !eb_close(again));
    DONE(eb_name_to_handle_at(fd, "", &held.handle, NULL, AT_EMPTY_PATH));
    MUST((again = eb_open_by_handle_at(AT_FDCWD, &held.handle, O_RDONLY)) >= 3 && !eb_close(again));
    REFUSED(eb_name_to_handle_at(root, "renamed", NULL, NULL, 0), EFAULT);
    REFUSED(eb_name_to_handle_at(root, "renamed", &held.handle, NULL, 1), EINVAL);
    REFUSED(eb_open_by_handle_at(root, NULL, O_RDONLY), EFAULT);
    MUST(!eb_unlink("/renamed") && !eb_close(fd));
    REFUSED(eb_open_by_handle_at(root, &held.handle, O_RDONLY), ESTALE);
    held.handle.handle_bytes = 8;
    REFUSED(eb_open_by_handle_at(root, &held.handle, O_RDONLY), EINVAL);
    DONE(eb_volume_close(root));
}

static void *wait_for_lock(void *fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10};
    DONE(eb_fcntl_lock(*(int *)fd, F_OFD_SETLKW, &lock));
    return NULL;
}

static void *count_up(void *fd) {
    for (int i = 0; i < 200; i++) MUST(eb_write(*(int *)fd, "x", 1) == 1);
    return NULL;
}

static void locks(void) {
    begin();
    int one = make("/file", "0123456789"), two = eb_open("/file", O_RDWR, 0);
    DONE(eb_flock(one, LOCK_EX));
    REFUSED(eb_flock(two, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    DONE(eb_flock(one, LOCK_SH));
    DONE(eb_flock(two, LOCK_SH));
    MUST(!eb_flock(one, LOCK_UN) && !eb_flock(two, LOCK_UN));
    REFUSED(eb_flock(one, 77), EINVAL);
    REFUSED(eb_flock(77, LOCK_SH), EBADF);

    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    DONE(eb_fcntl_lock(one, F_OFD_SETLK, &lock));
    struct flock asked = {.l_type = F_RDLCK, .l_whence = SEEK_END, .l_start = 2, .l_len = 0};
    DONE(eb_fcntl_lock(two, F_OFD_GETLK, &asked));
    MUST(asked.l_type == F_WRLCK && asked.l_start == 10 && asked.l_len == 5 && asked.l_pid == getpid());
    asked = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 20, .l_len = -6};
    REFUSED(eb_fcntl_lock(two, F_OFD_SETLK, &asked), EAGAIN);
    asked.l_len = -5, asked.l_whence = SEEK_SET;
    DONE(eb_fcntl_lock(two, F_OFD_SETLK, &asked));
    asked = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 5};
    DONE(eb_fcntl_lock(two, F_OFD_GETLK, &asked));
    MUST(asked.l_type == F_UNLCK);
    asked = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = -1};
    REFUSED(eb_fcntl_lock(two, F_SETLK, &asked), EINVAL);
    asked = (struct flock){.l_type = 9};
    REFUSED(eb_fcntl_lock(two, F_SETLK, &asked), EINVAL);
    asked = (struct flock){.l_type = F_RDLCK, .l_start = INT64_MAX, .l_len = 1};
    REFUSED(eb_fcntl_lock(two, F_SETLK, &asked), EOVERFLOW);
    asked = (struct flock){.l_type = F_RDLCK, .l_whence = 9};
    REFUSED(eb_fcntl_lock(two, F_SETLK, &asked), EINVAL);
    asked = (struct flock){.l_type = F_RDLCK, .l_pid = 3};
    REFUSED(eb_fcntl_lock(two, F_OFD_SETLK, &asked), EINVAL);
    REFUSED(eb_fcntl_lock(two, F_GETFL, &lock), EINVAL);
    REFUSED(eb_fcntl_lock(two, F_SETLK, NULL), EFAULT);
    REFUSED(eb_fcntl_lock(77, F_SETLK, &lock), EBADF);
    /* A thread waits until the lock ends with its open file. */
    asked = (struct flock){.l_type = F_UNLCK};
    DONE(eb_fcntl_lock(two, F_OFD_SETLK, &asked));
    pthread_t waiting;
    MUST(!pthread_create(&waiting, NULL, wait_for_lock, &two));
    DONE(eb_close(one));
    MUST(!pthread_join(waiting, NULL));
    asked = (struct flock){.l_type = F_UNLCK};
    DONE(eb_fcntl_lock(two, F_OFD_SETLK, &asked));

    /* Record locks of two callers: closing any descriptor of the file ends them. */
    lock = (struct flock){.l_type = F_WRLCK, .l_len = 3};
    DONE(eb_fcntl_lock(two, F_SETLK, &lock));
    eb_process *other = eb_process_new();
    DONE(eb_process_use(other));
    int theirs = eb_dup(two);
    REFUSED(eb_fcntl_lock(theirs, F_SETLK, &lock), EAGAIN);
    DONE(eb_process_use(NULL));
    int third = eb_open("/file", O_RDONLY, 0);
    MUST(third >= 3 && !eb_close(third));
    DONE(eb_fcntl_lock(theirs, F_SETLK, &lock));
    eb_process_free(other);
    MUST(!eb_close(theirs) && !eb_close(two));

    /* Threads append to one file. */
    int log = eb_open("/log", O_CREAT | O_WRONLY | O_APPEND, 0644);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) MUST(!pthread_create(&threads[i], NULL, count_up, &log));
    for (int i = 0; i < 3; i++) MUST(!pthread_join(threads[i], NULL));
    struct stat status;
    MUST(!eb_fstat(log, &status) && status.st_size == 600 && !eb_close(log));

    /* A child has nothing of the store. */
    pid_t child = fork();
    if (child == 0) {
        int refused = eb_stat("/log", &status) == -1 && errno == EPERM && eb_volume_open(volume, 0) == -1 && errno == EPERM;
        _exit(refused ? 0 : 1);
    }
    int ended = -1;
    MUST(waitpid(child, &ended, 0) == child && ended == 0);
    MUST(exists("/log")); /* closed when the process ends */
}

/* The mapping fails with this errno, and sets a sentence. */
#define UNMAPPABLE(what, number) \
    (errno = 0, require((what) == MAP_FAILED && errno == (number) && *everbyte_error(), #what, __LINE__))

/* Mapped ranges. The backend `file` has no shared ones. */
static void maps(void) {
    begin();
    int on_file = !strcmp(getenv("EVERBYTE_BACKEND"), "file");
    int fd = make("/file", "hello");
    DONE(eb_ftruncate(fd, 10000));
    char found[8];
    char *own = eb_mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    MUST(own != MAP_FAILED && !memcmp(own, "hello", 6) && !own[9999]);
    own[0] = 'j';
    DONE(eb_msync(own, 10000, MS_SYNC));
    MUST(eb_pread(fd, found, 5, 0) == 5 && !memcmp(found, "hello", 5));
    REFUSED(eb_munmap(own, 4096), EINVAL); /* a part */
    DONE(eb_munmap(own, 10000));
    REFUSED(eb_munmap(own, 10000), EINVAL);

    int both = PROT_READ | PROT_WRITE;
    UNMAPPABLE(eb_mmap(NULL, 0, both, MAP_PRIVATE, fd, 0), EINVAL);
    UNMAPPABLE(eb_mmap(NULL, 8, both, MAP_PRIVATE, fd, 8), EINVAL);
    UNMAPPABLE(eb_mmap(NULL, 8, both, MAP_PRIVATE, fd, -4096), EINVAL);
    UNMAPPABLE(eb_mmap(NULL, SIZE_MAX, both, MAP_PRIVATE, fd, 0), EINVAL);
    UNMAPPABLE(eb_mmap(NULL, 8, PROT_NONE, MAP_PRIVATE, fd, 0), EINVAL);
    UNMAPPABLE(eb_mmap(NULL, 8, both | PROT_EXEC, MAP_PRIVATE, fd, 0), EPERM);
    UNMAPPABLE(eb_mmap(NULL, 8, both, 0, fd, 0), EINVAL);
    UNMAPPABLE(eb_mmap(NULL, 8, both, MAP_PRIVATE | MAP_FIXED, fd, 0), EINVAL);
    UNMAPPABLE(eb_mmap(NULL, 8, both, MAP_SHARED_VALIDATE | MAP_FIXED, fd, 0), EOPNOTSUPP);
    UNMAPPABLE(eb_mmap(NULL, 8, both, MAP_PRIVATE, 99, 0), EBADF);
    UNMAPPABLE(eb_mmap(NULL, 8, PROT_READ, MAP_PRIVATE, root, 0), ENODEV);
    UNMAPPABLE(eb_mmap(NULL, 12289, both, MAP_PRIVATE, fd, 0), ENXIO);
    UNMAPPABLE(eb_mmap(NULL, 8, both, MAP_PRIVATE, fd, 12288), ENXIO);
    REFUSED(eb_munmap(NULL, 4096), EFAULT);
    REFUSED(eb_munmap((char *)&fd, 4096), EINVAL);
    REFUSED(eb_munmap((void *)4096, SIZE_MAX), EINVAL);
    REFUSED(eb_msync((void *)4096, 8, MS_SYNC), ENOMEM);
    REFUSED(eb_msync((void *)4096, SIZE_MAX, MS_SYNC), ENOMEM);
    REFUSED(eb_msync((void *)4096, 8, MS_SYNC | MS_ASYNC), EINVAL);
    REFUSED(eb_msync((void *)4096, 8, 1 << 20), EINVAL);
    if (on_file) {
        UNMAPPABLE(eb_mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0), ENODEV);
        DONE(eb_close(fd));
        DONE(eb_volume_close(root));
        return;
    }
    int read_only = eb_open("/file", O_RDONLY, 0);
    UNMAPPABLE(eb_mmap(NULL, 8, both, MAP_SHARED, read_only, 0), EACCES);
    char *map = eb_mmap(NULL, 10000, both, MAP_SHARED, fd, 0);
    char *page = eb_mmap(NULL, 4096, PROT_READ, MAP_SHARED, read_only, 4096);
    MUST(map != MAP_FAILED && page != MAP_FAILED && !memcmp(map, "hello", 6));
    memcpy(map + 4090, "over the edge", 13);
    MUST(eb_pread(fd, found, 7, 4096) == 7 && !memcmp(found, "he edge", 7) && !memcmp(page, "he edge", 7));
    MUST(eb_pwrite(fd, "E", 1, 4097) == 1 && page[1] == 'E' && map[4097] == 'E');
    DONE(eb_msync(map, 10000, MS_SYNC));
    DONE(eb_msync(map + 4096, 4096, MS_ASYNC));
    DONE(eb_msync(page, 4096, MS_SYNC | MS_INVALIDATE));
    REFUSED(eb_msync(map + 1, 8, MS_SYNC), EINVAL);
    REFUSED(eb_msync(map + 8192, 4097, MS_SYNC), ENOMEM);
    REFUSED(eb_munmap(map + 4096, 8192), EINVAL);

    /* The mapping keeps its pages, its file and its volume. */
    REFUSED(eb_ftruncate(fd, 0), EBUSY);
    DONE(eb_close(read_only));
    DONE(eb_munmap(page, 4096));
    DONE(eb_close(fd));
    DONE(eb_unlink("/file"));
    MUST(map[4097] == 'E');
    REFUSED(eb_volume_close(root), EBUSY);

    /* Two mappings of one range: that for stores ends last, whichever is given back first. */
    MUST((fd = make("/twin", "hello")) >= 3 && !eb_ftruncate(fd, 4096));
    char *twin = eb_mmap(NULL, 4096, both, MAP_SHARED, fd, 0);
    char *other = eb_mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    DONE(eb_munmap(other, 4096));
    twin[0] = 'j';
    DONE(eb_msync(twin, 4096, MS_SYNC));
    MUST(eb_pread(fd, found, 5, 0) == 5 && !memcmp(found, "jello", 5));
    DONE(eb_munmap(twin, 4096));
    DONE(eb_ftruncate(fd, 0));
    DONE(eb_close(fd));

    /* Another process has none of it. */
    pid_t child = fork();
    if (child == 0) _exit(eb_munmap(map, 10000) == -1 && errno == EPERM ? 0 : 1);
    int ended = -1;
    MUST(waitpid(child, &ended, 0) == child && ended == 0);
    DONE(eb_munmap(map, 10000));
    DONE(eb_volume_close(root));

    /* One that is left when the process ends: its stores are there, see `mapped`. */
    MUST((root = eb_volume_open(volume, 0)) >= 3 && (fd = make("/kept", "hello")) >= 3);
    DONE(eb_ftruncate(fd, 4096));
    MUST((map = eb_mmap(NULL, 4096, both, MAP_SHARED, fd, 0)) != MAP_FAILED);
    map[0] = 'j';
}

/* The file of the part `maps`, whose process has ended with a mapping. */
static void mapped(void) {
    char found[5];
    volume = "maps";
    MUST((root = eb_volume_open(volume, 0)) >= 3);
    int fd = eb_open("/kept", O_RDONLY, 0);
    MUST(fd == -1 || (eb_read(fd, found, 5) == 5 && !memcmp(found, "jello", 5) && !eb_close(fd)));
    DONE(eb_volume_close(root));
}

/* The file of the part `locks`, whose process has ended without closing the volume. */
static void again(void) {
    volume = "locks";
    MUST((root = eb_volume_open(volume, 0)) >= 3 && exists("/log"));
    DONE(eb_volume_close(root));
}

/* A volume that a later format has, which the test has made. */
static void newer(void) {
    REFUSED(eb_volume_open(volume, 0), EPROTONOSUPPORT);
    MUST(strstr(everbyte_error(), "`newer`") && strstr(everbyte_error(), "use a newer Everbyte"));
    REFUSED(eb_volume_open(volume, EB_READ_ONLY), EPROTONOSUPPORT);
}

int main(int argc, char **argv) {
    struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"volumes", volumes}, {"bytes", bytes}, {"names", names}, {"attributes", attributes},
                 {"locks", locks},     {"again", again}, {"maps", maps},   {"mapped", mapped},
                 {"newer", newer}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc == 2 && !strcmp(argv[1], parts[i].name)) return volume = parts[i].name, parts[i].run(), 0;
    fprintf(stderr, "usage: posix volumes|bytes|names|attributes|locks|again|maps|mapped|newer\n");
    return 2;
}
