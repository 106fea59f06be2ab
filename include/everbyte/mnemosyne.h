/* Mnemosyne: persistent memory for C and C++ programs. Link with -leverbyte.
 *
 * Variables that keep their values (pstatic.h), memory that is allocated into them so that no
 * crash can leak it, and primitives for programs that order their own stores.
 *
 *     pstatic struct node *first; (NULL at the first run; later its last value)
 *     struct node *node = pmalloc(sizeof *node, &first);
 *
 * Conventions:
 *
 * 1. The store. All persistent memory lies in a store, one file: the file that EVERBYTE_STORE
 *    names; or everbyte.store in the directory that MNEMOSYNE_REGION_PATH names, or in the
 *    current one. The first use creates it. It lies at one address for life and is used by one
 *    process at a time: each instance of a program needs a directory of its own.
 *    EVERBYTE_BACKEND (auto, pmem, file, shm) and EVERBYTE_DURABILITY (always, interval:MS,
 *    process) select how it is opened.
 * 2. Durability. After a crash each aligned 8-byte word holds its settled value or a value
 *    stored since. Bytes flushed before a fence are present if any byte stored after the fence
 *    is. Bytes settled by a fence, or by a call that says so, survive the end of the process and
 *    a power cut.
 * 3. Results. Calls return 1, or a pointer. On failure they return 0, or NULL, set errno and
 *    everbyte_error(), and change nothing. EINVAL: an address is not persistent memory of this
 *    process.
 * 4. Threads. THREADS: any, unless a call says otherwise; not from signal handlers.
 * 5. Fork. A child of fork must not use variables, blocks and regions; its calls fail with
 *    EPERM.
 *
 * After Volos, Tack, Swift: "Mnemosyne: Lightweight Persistent Memory", ASPLOS 2011. */
#ifndef EVERBYTE_MNEMOSYNE_H
#define EVERBYTE_MNEMOSYNE_H

#include "heapo.h"
#include "pstatic.h"
#include <stdint.h>

/* Marks a function that blocks of patomic.h may call, if the program is compiled with their
 * flags. */
#if defined EVERBYTE_PATOMIC_FLAGS && !defined __CHECKER__
#define EVERBYTE_SAFE __attribute__((transaction_safe))
#else
#define EVERBYTE_SAFE
#endif

/* Marks a pointer to persistent memory: `struct node persistent *first`. sparse, and clang with
 * -DEVERBYTE_CHECK, tell such pointers from others and refuse a conversion between the two
 * kinds. For other compilers the word is empty. */
#if defined(__CHECKER__) || (defined(EVERBYTE_CHECK) && defined(__clang__))
#define EVERBYTE_CHECKED 1
#define persistent __attribute__((address_space(1)))
#else
#define persistent
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Allocate at least `size` bytes, aligned to 16, and store their address to the pointer at
 * `destination`, which lies in persistent memory: a pstatic variable, a block, or an object of
 * heapo.h. Both happen, or neither; settled on return. The contents of the block are
 * unspecified; pmalloc_set fills it with the byte `value`, and the filled block appears as a
 * whole. Inside a block of patomic.h the call is part of that block, and the pointer must be a
 * variable of the program or lie in a block.
 * REQUIRES: no transaction is changing the pointer.
 * Return the block. Fail with EINVAL, ENOMEM for more bytes than a heap can hold, ENOSPC if the
 * disk or the heap (8 GiB) is full. */
EVERBYTE_SAFE void persistent *pmalloc(size_t size, void *destination);
EVERBYTE_SAFE void persistent *pmalloc_set(size_t size, void *destination, int value);

/* Frees the block whose address the pointer at `pointer` holds, and stores NULL to the pointer.
 * Both happen, or neither; settled on return. If the pointer is NULL, the call does nothing.
 * Fails with EINVAL for an address of no block, or of a free one. */
EVERBYTE_SAFE int pfree(void *pointer);

/* Maps a new region of `size` bytes, rounded up to pages, that reads as zeros, and stores its
 * address to the pointer at `address`, which is a variable of the program or lies in a block or
 * region of it. Both happen, or neither; settled on return. The region stays mapped at that
 * address, in later runs too, until it is unmapped. `prot` is PROT_READ, PROT_WRITE, both, or 0,
 * as for mmap, and applies in later runs too; `flags` is 0.
 * Returns the region. Fails with EINVAL, ENOSPC. */
void persistent *pmap(void *address, size_t size, int prot, int flags);

/* Unmaps the parts of regions in `start .. start + size`, which is whole pages: all of a region
 * or a part of it. Settled on return. Unmapped bytes must not be touched.
 * REQUIRES: the pointers to the range are set to NULL.
 * Fails with EINVAL if no region lies there. */
int punmap(void *start, size_t size);

/* Three ways to store: `store` through the cache, where the bytes may stay until they are
 * flushed; `wtstore` and `wtcopy` past the cache, which starts the write-back at once. */
#define mnemosyne_store(address, value) ((void)(*(address) = (value)))
int mnemosyne_wtstore(uint64_t *address, uint64_t value);
int mnemosyne_wtcopy(void *target, const void *source, size_t size);

/* Starts the write-back of the lines that hold `start .. start + size`. */
int mnemosyne_flush(const void *start, size_t size);

/* fence settles the bytes that this thread flushed or stored past the cache, together with all
 * bytes ordered before them. order only orders them before the thread's later stores, at a cost
 * that may be much lower. */
int mnemosyne_fence(void);
int mnemosyne_order(void);

/* A log of 64-bit words in an object of its own: records are appended, flushed, and later
 * truncated. */
typedef struct mnemosyne_log mnemosyne_log;

enum {
    MNEMOSYNE_LOG_BASE = 1,  /* two fences a flush instead of one; better for records of 2 KiB and more */
    MNEMOSYNE_LOG_WAIT = 2,  /* a full log waits for another thread to truncate it, instead of failing */
    MNEMOSYNE_LOG_EMPTY = 4, /* the log is truncated here, after `each` has had what it holds, and nowhere else */
};

/* Creates the log `name` of `size` bytes, or opens it. On opening, `each` (may be NULL) receives
 * every record that was flushed and not truncated, whole, oldest first. An existing log keeps
 * its size and form.
 * Fails with EINVAL for an invalid name or flag, EPERM if the object is no log, EBUSY if it is
 * open, ENOSPC, EUCLEAN. */
mnemosyne_log *log_create(const char *name, size_t size, int flags,
                          void (*each)(const uint64_t *words, size_t count, void *context), void *context);

/* Appends one record. If the program dies before the next flush, the record is whole or absent.
 * Fails with ENOSPC if the log is full, E2BIG for a record that the log can never hold. */
int log_append(mnemosyne_log *log, const uint64_t *words, size_t count);

/* Settles every record appended so far. */
int log_flush(mnemosyne_log *log);

/* Drops every record flushed so far; settled on return.
 * REQUIRES: the effects of these records are settled.
 * THREADS: one thread appends and flushes while another truncates, and neither waits for the
 * other. */
int log_truncate(mnemosyne_log *log);

/* Closes a log; `log` must not be used afterwards. NULL: does nothing. */
void log_close(mnemosyne_log *log);

/* Run the repairs of a starting program. Registered functions run once, in the order of
 * registration, in mnemosyne_restart, or else when the first block of patomic.h or atomically.h
 * begins. Before they run, variables, regions and objects are recovered: each transaction is
 * whole or absent. The compiler does not know that a block may begin with these functions, and
 * may reuse a value that the enclosing function read before: so call mnemosyne_restart first. */
int mnemosyne_at_restart(void (*run)(void *context), void *context);
void mnemosyne_restart(void);

/* For checkers: these calls take pointers of both kinds. */
#ifdef EVERBYTE_CHECKED
#define everbyte_any(pointer) ((void *)(uintptr_t)(pointer))
#define pmalloc(size, destination) pmalloc(size, everbyte_any(destination))
#define pmalloc_set(size, destination, value) pmalloc_set(size, everbyte_any(destination), value)
#define pfree(pointer) pfree(everbyte_any(pointer))
#define pmap(address, size, prot, flags) pmap(everbyte_any(address), size, prot, flags)
#define punmap(start, size) punmap(everbyte_any(start), size)
#define mnemosyne_flush(start, size) mnemosyne_flush(everbyte_any(start), size)
#define mnemosyne_wtstore(address, value) mnemosyne_wtstore((uint64_t *)everbyte_any(address), value)
#define mnemosyne_wtcopy(target, source, size) mnemosyne_wtcopy(everbyte_any(target), everbyte_any(source), size)
#endif

/* The names of the paper, on request. */
#ifdef MNEMOSYNE_NAMES
#define store(address, value) mnemosyne_store(address, value)
#define wtstore(address, value) mnemosyne_wtstore(address, value)
#define flush(address) mnemosyne_flush(address, 1)
#define fence() mnemosyne_fence()
#endif

#ifdef __cplusplus
}
#endif
#endif
