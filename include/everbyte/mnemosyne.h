/* Mnemosyne: persistent memory for C and C++ programs.
 *
 * Variables that keep their values (pstatic.h), memory that is allocated into them so that no crash
 * can leak it, and the primitives of those who order their own stores.
 *
 *     pstatic struct node *first; NULL at the first run; afterwards what it was
 *     struct node *node = pmalloc(sizeof *node, &first);
 *
 * Everything lies in a store, one file: the one that EVERBYTE_STORE names; or everbyte.store in the
 * directory that MNEMOSYNE_REGION_PATH names, or in the current one. It is made when it is first
 * used, lies at one address for life, and is used by one process at a time: instances of a program
 * get a directory each. EVERBYTE_BACKEND (auto, pmem, file, shm) and EVERBYTE_DURABILITY (always,
 * interval:MS, process) say how it is opened. Link with -leverbyte.
 *
 * What survives. After a crash each aligned 8-byte word holds its settled value or one stored
 * since, and whatever was flushed before a fence is there if anything stored after it is. What a
 * fence or a call that says so settled survives the process and a power cut.
 *
 * Calls return 1, or a pointer; on failure 0, or NULL, with errno and everbyte_error() set, and
 * nothing changed. EINVAL: an address is not persistent memory of this process.
 * THREADS: any, unless it is said; not from signal handlers. After fork the child must not use
 * variables, blocks and regions; calls fail with EPERM.
 *
 * After Volos, Tack, Swift: "Mnemosyne: Lightweight Persistent Memory", ASPLOS 2011. */
#ifndef EVERBYTE_MNEMOSYNE_H
#define EVERBYTE_MNEMOSYNE_H

#include "heapo.h"
#include "pstatic.h"
#include <stdint.h>

/* A function that blocks of patomic.h may call: their flags make it so. */
#if defined EVERBYTE_PATOMIC_FLAGS && !defined __CHECKER__
#define EVERBYTE_SAFE __attribute__((transaction_safe))
#else
#define EVERBYTE_SAFE
#endif

/* What a pointer leads to lies in persistent memory: `struct node persistent *first`. sparse tells
 * such pointers from others, and so does clang with -DEVERBYTE_CHECK: both object where one becomes
 * the other. Elsewhere the word says nothing. */
#if defined(__CHECKER__) || (defined(EVERBYTE_CHECK) && defined(__clang__))
#define EVERBYTE_CHECKED 1
#define persistent __attribute__((address_space(1)))
#else
#define persistent
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates at least `size` bytes, aligned to 16, and stores their address to the pointer at
 * `destination`, which lies in persistent memory: a pstatic variable, a block, an object of
 * heapo.h. Both happen, or neither; settled on return. What the block holds is unspecified;
 * pmalloc_set fills it with the byte `value`, which appears together with it. REQUIRES: no
 * transaction is changing the pointer. Inside a block of patomic.h it is part of that instead, and
 * the pointer is the program's: a variable, or in a block.
 * Returns the block. Fails with EINVAL, ENOMEM for more than there can be, ENOSPC if the disk or
 * the heap (8 GiB) is full. */
EVERBYTE_SAFE void persistent *pmalloc(size_t size, void *destination);
EVERBYTE_SAFE void persistent *pmalloc_set(size_t size, void *destination, int value);

/* Frees the block whose address the pointer at `pointer` holds, and stores NULL there. Both happen,
 * or neither; settled on return. Where it holds NULL there is nothing to do.
 * Fails with EINVAL for what is no block, or is free already. */
EVERBYTE_SAFE int pfree(void *pointer);

/* Maps a new region of `size` bytes, rounded up to pages, that reads as zeros, and stores its
 * address to the pointer at `address`, which is a variable of the program or lies in a block or
 * region of it. Both happen, or neither; settled on return. The region stays there, at that
 * address, until it is unmapped. `prot` is PROT_READ, PROT_WRITE, both, or 0, as for mmap, in later
 * runs too; `flags` is 0.
 * Returns the region. Fails with EINVAL, ENOSPC. */
void persistent *pmap(void *address, size_t size, int prot, int flags);

/* Unmaps what regions have in `start .. start + size`, which is whole pages: all of a region or a
 * part of it. Settled on return. What is unmapped must not be touched. Set the pointers to it to
 * NULL first. Fails with EINVAL if nothing is mapped there. */
int punmap(void *start, size_t size);

/* Stores: through the cache, where it may stay until it is flushed; or past it, on its way at
 * once. */
#define mnemosyne_store(address, value) ((void)(*(address) = (value)))
int mnemosyne_wtstore(uint64_t *address, uint64_t value);
int mnemosyne_wtcopy(void *target, const void *source, size_t size);

/* Starts carrying the lines that hold `start .. start + size` to the medium. */
int mnemosyne_flush(const void *start, size_t size);

/* Completes what this thread flushed and stored past the cache: it survives anything, and so does
 * whatever it was ordered after. mnemosyne_order only orders it before what this thread stores
 * later, which may cost much less. */
int mnemosyne_fence(void);
int mnemosyne_order(void);

/* A log of 64-bit words: records are appended, flushed, and later truncated. It lies in an object
 * of its own. */
typedef struct mnemosyne_log mnemosyne_log;

enum {
    MNEMOSYNE_LOG_BASE = 1,  /* two fences a flush instead of one; better for records of 2 KiB and more */
    MNEMOSYNE_LOG_WAIT = 2,  /* a full log waits for another thread to truncate it, instead of failing */
    MNEMOSYNE_LOG_EMPTY = 4, /* the log is truncated here, after `each` has had what it holds, and nowhere else */
};

/* Makes the log `name` of `size` bytes, or opens it: then each record that had been flushed and not
 * truncated goes to `each` (may be NULL), oldest first, whole. Its size and form stay what they
 * were when it was made. Fails with EINVAL for what is no name or no flag, EPERM if the object is
 * no log, EBUSY if it is open, ENOSPC, EUCLEAN. */
mnemosyne_log *log_create(const char *name, size_t size, int flags,
                          void (*each)(const uint64_t *words, size_t count, void *context), void *context);

/* Appends one record. It comes back whole, or not at all if the program dies before the next flush.
 * Fails with ENOSPC if the log is full, E2BIG for more than it can ever hold. */
int log_append(mnemosyne_log *log, const uint64_t *words, size_t count);

/* Settles every record appended so far. */
int log_flush(mnemosyne_log *log);

/* Drops every record flushed so far; settled on return. First see to it that what they asked for
 * is. THREADS: one appends and flushes while another truncates, and neither waits for the other. */
int log_truncate(mnemosyne_log *log);

/* Closes it; `log` must not be used any more. NULL: does nothing. */
void log_close(mnemosyne_log *log);

/* What a program puts right when it starts again. Functions that were registered run once, in that
 * order, when mnemosyne_restart is called, or else when the first block of patomic.h or
 * atomically.h begins. By then variables, regions and objects are as transactions and crashes left
 * them. The compiler does not know that a block may begin with these functions, and may use in it
 * what the same function read before: so call mnemosyne_restart first. */
int mnemosyne_at_restart(void (*run)(void *context), void *context);
void mnemosyne_restart(void);

/* For checkers: these take pointers of both kinds. */
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

/* The paper's own names, for those who want them. */
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
