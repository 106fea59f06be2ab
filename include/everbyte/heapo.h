/* HEAPO: named persistent objects at fixed addresses, for C and C++. Link with -leverbyte.
 *
 *     struct node { int value; struct node *next; };
 *     if (!heapo_create("list")) heapo_map("list");
 *     heapo_tx_begin("list");
 *     struct node *node = heapo_malloc("list", sizeof *node);
 *     node->value = 42;
 *     node->next = heapo_get_prime_node("list");
 *     heapo_set_prime_node("list", node);
 *     heapo_tx_end("list");
 *
 * Conventions:
 *
 * 1. Objects. An object is a heap of its own under a name. It lies at one address for life, in
 *    every process. Plain pointers into it stay valid after a restart, after a crash, and
 *    between objects that are both mapped.
 * 2. The store. Objects live in a store, one file: the file that EVERBYTE_STORE names, or
 *    ./everbyte.store. The first call creates it. EVERBYTE_BACKEND (auto, pmem, file, shm) and
 *    EVERBYTE_DURABILITY (always, interval:MS, process) select how it is opened.
 * 3. Brokers. If EVERBYTE_BROKER names the socket of an `everbyte broker`, EVERBYTE_STORE names
 *    one of its domains instead, which the broker creates if it does not exist. The broker
 *    passes the store for writing or for reading only, as the rights of the domain allow; the
 *    kernel enforces this.
 * 4. Durability. After a crash each aligned 8-byte word holds its settled value or a value
 *    stored since. Bytes flushed before a fence are present if any byte stored after the fence
 *    is. heapo_tx_end and heapo_persist settle: the bytes they cover survive the end of the
 *    process and a power cut. Bytes stored and never flushed may be lost, at a clean exit too.
 * 5. Results. Calls return 1, or a pointer. On failure they return 0, or NULL, set errno and
 *    everbyte_error(), and change nothing.
 * 6. Threads. THREADS: any, not from signal handlers. A transaction and a lock belong to the thread
 *    that took them: they end with it, a transaction by being rolled back. Functions that run at
 *    exit, and destructors of static objects and of keys, may make calls; what their thread had
 *    begun has ended. A thread that has begun a transaction, or a lock, before begins no other of
 *    that kind then: EPERM. Another one must end there what it begins there: nothing else does.
 * 7. Sharing. On pmem and shm several processes may open the store and map one object, at the
 *    same addresses. Each process sees the stores of the others, and the growth of the object,
 *    at once. A transaction, and each call that allocates or frees, holds the object exclusively
 *    until it ends: other processes and other threads wait. To avoid deadlock, take two objects
 *    in the same order everywhere. Reads and stores outside of transactions are guarded by
 *    heapo_lock. On other backends one process opens the store at a time.
 * 8. Process death. If a process dies, cleanly or not, the next process that takes the object
 *    rolls its transaction back, or completes it if it had committed.
 * 9. Fork. A child of fork inherits no store: its calls fail with EPERM, it must not follow its
 *    pointers, and its exit unmaps nothing in the parent. The child should exec, or the program
 *    should fork before it opens the store.
 *
 * After Hwang, Jung, Won: "HEAPO: Heap-Based Persistent Object Store", ACM Transactions on
 * Storage 11(1), 2014. */
#ifndef EVERBYTE_HEAPO_H
#define EVERBYTE_HEAPO_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Describes this thread's last failed call in a sentence: the operation, the object or file, and
 * a way out, in at most 1023 bytes; 127 in a thread that is ending. The text is valid until the
 * thread's next failed call. */
const char *everbyte_error(void);

/* Opens the store at `path`, or creates it; NULL: the store of convention 2 or 3. Other calls
 * open that store on demand. A process uses one store until it ends.
 * Fails with EBUSY if another process has the store open exclusively, EACCES if the rights of a
 * broker's domain allow no access, ECONNREFUSED if no broker answers, ENOTSUP if the store is
 * not bound to an address (`everbyte create --bound` creates a bound one), EADDRINUSE if this
 * process uses that address already, EUCLEAN if the store is damaged. */
int heapo_open(const char *path);

/* Creates the object `name` and maps it. Settled on return: after a crash the object is whole or
 * absent. Names are UTF-8 paths of at most 128 bytes, such as "shop/orders".
 * Fails with EEXIST, EINVAL for an invalid name, ENOSPC. */
int heapo_create(const char *name);

/* Like heapo_create, for an object that can grow to `size_max` bytes, its own records included,
 * rounded up to a power of two of at least 1 MiB; 0: 64 MiB, the limit of heapo_create. The
 * limit reserves addresses (a store created by these calls has 256 GiB of them) and no memory.
 * Fails as heapo_create does; ENOSPC if not enough addresses are left. */
int heapo_create_sized(const char *name, size_t size_max);

/* Maps an existing object; a mapped object stays mapped. Recovery rolls back what a crash left
 * incomplete before the call returns.
 * Fails with ENOENT, EACCES if the rights of the object do not allow it, EPERM if the object is
 * of another kind, EUCLEAN if it is damaged. */
int heapo_map(const char *name);

/* Maps an object for reading: a store by the program to it raises SIGSEGV, and calls that change
 * it fail with EACCES. The right to read the object suffices. If this process may only read the
 * store, heapo_map maps its objects in this way, too. heapo_lock waits as usual and keeps
 * writers out. A mapped object keeps its mode.
 * Fails as heapo_map does. */
int heapo_map_to_read(const char *name);

/* Unmaps an object from this process only. Pointers into it must not be used until it is mapped
 * again.
 * Fails with ENOENT if it is not mapped, EBUSY while a transaction on it runs or a thread has
 * locked it. */
int heapo_unmap(const char *name);

/* Returns 1 if this process has mapped the object, else 0. */
int heapo_is_mapped(const char *name);

/* Deletes an object with its contents. Settled on return.
 * Fails with ENOENT, EBUSY while a transaction on it runs, a thread has locked it, or another
 * process has mapped it. */
int heapo_delete(const char *name);

/* Calls `each` with the name of every object that begins with `prefix` (NULL: all), in order,
 * until `each` returns 0. */
int heapo_list(const char *prefix, int (*each)(const char *name, void *context), void *context);

/* Set the rights to map an object. `mode` is read 4 and write 2, in octal digits for owner,
 * group and others. A new object has 0660 and belongs to the user and group of its creator.
 * chown sets another owner or group; (unsigned)-1 keeps the present one. Both apply from the
 * next heapo_map on. Settled on return. Within one store, rights prevent accidents, not attacks.
 * Fail with ENOENT, EACCES if the object belongs to another user, EINVAL for other bits in
 * `mode`. */
int heapo_chmod(const char *name, unsigned mode);
int heapo_chown(const char *name, unsigned owner, unsigned group);

/* set_resident lets at most `clusters` clusters (64 KiB each) of an object be in memory at once,
 * on backends pmem and shm. The other clusters lie in a backing file beside the store and return
 * to memory when the program loads from them or stores to them. 0: no limit. An object with a
 * limit is used by one process at a time. A system call fails with EFAULT if it is given a
 * pointer to bytes that are not in memory; the program touches them first. A program with its
 * own SIGSEGV handler installs it before it maps the object, or calls the handler that it
 * replaced. Settled on return.
 * set_quota limits the number of clusters of the object: chunks beyond the quota are refused
 * with EDQUOT. 0: no quota.
 * Fail with ENOENT, EBUSY while a process has mapped the object, EACCES, EINVAL for fewer
 * clusters than the object needs or on backend file, ENOSPC. */
int heapo_set_resident(const char *name, size_t clusters);
int heapo_set_quota(const char *name, size_t clusters);

/* Returns the pointer from which the program reaches everything else in the object; NULL in a
 * new one. */
void *heapo_get_prime_node(const char *name);

/* Sets the prime node; `node` points into the object or is NULL. Settled on return, together
 * with everything flushed before; inside a transaction it is part of the transaction. */
int heapo_set_prime_node(const char *name, void *node);

/* Allocate at least `size` bytes, aligned to 16. malloc leaves their contents unspecified,
 * calloc sets them to zero. Inside a transaction the chunk belongs to the transaction until it
 * ends: stores to the chunk need no heapo_tx_append, heapo_tx_end flushes them, and an abort or
 * a crash frees the chunk. Outside, the chunk is allocated on return: a crash before a pointer
 * to it is settled leaks it.
 * Fail with ENOSPC if the object has grown to its limit (heapo_create_sized) or the disk is
 * full, ENOMEM for more bytes than an object can hold. */
void *heapo_malloc(const char *name, size_t size);
void *heapo_calloc(const char *name, size_t count, size_t size);

/* Returns a chunk of `size` bytes with the contents of `chunk`, as far as they fit: the same
 * chunk if it suffices, else another one, and `chunk` is freed. NULL for `chunk`: malloc. */
void *heapo_realloc(const char *name, void *chunk, size_t size);

/* Frees a chunk; inside a transaction, when it commits. NULL: does nothing.
 * REQUIRES: no pointer on media leads to the chunk.
 * Fails with EINVAL for a pointer to no chunk of this object, or to a free one. */
int heapo_free(const char *name, void *chunk);

/* Begins a transaction on an object. All changes until heapo_tx_end happen or none: bytes logged
 * by heapo_tx_append, allocations, frees, and the prime node. Inside another transaction of this
 * thread on the same object it is part of that one.
 * Fails with EPERM in a thread that is ending and has begun one before. */
int heapo_tx_begin(const char *name);

/* Logs the bytes at `start .. start + size`, so that the program may store to them; costs one
 * fence. Log only the bytes that an undo needs: usually one pointer, which takes one line of the
 * log, as up to 48 bytes do.
 * Fails with EINVAL outside of a transaction, or for bytes outside of the chunks and the prime
 * node. */
int heapo_tx_append(const char *name, const void *start, size_t size);

/* Ends the innermost transaction. The outermost flushes the logged ranges and the new chunks,
 * commits, and is settled on return.
 * Fails with ECANCELED, rolled back, if an inner transaction was aborted; EIO: the outcome is
 * unknown until the store is opened again. */
int heapo_tx_end(const char *name);

/* Ends the innermost transaction. The outermost is rolled back: by this call, or by its own
 * heapo_tx_end. */
int heapo_tx_abort(const char *name);

/* lock waits until this thread holds the object exclusively among all threads and processes;
 * unlock releases it. Locks nest, and a transaction may run inside. The lock guards reads and
 * stores of the program itself: it neither flushes nor rolls back.
 * lock fails with EPERM in a thread that is ending and has taken one before, unlock if this thread
 * does not hold the lock. */
int heapo_lock(const char *name);
int heapo_unlock(const char *name);

/* Grows an object by at least `size` bytes, in clusters of 64 KiB, so that later allocations
 * need no call to the file system. A full object grows by itself. All processes that share the
 * object see the growth.
 * Fails with ENOSPC, ENOMEM for more bytes than an object can hold. */
int heapo_expand(const char *name, size_t size);

/* Returns the clusters that lie wholly in `start .. start + size` to the file system; NULL for
 * `start`: all clusters without a chunk. Many free clusters are returned without this call. All
 * processes that share the object see the change; the object grows again on demand.
 * Fails with EBUSY, and changes nothing, if a chunk or the object's own records lie in one of
 * the clusters. */
int heapo_shrink(const char *name, const void *start, size_t size);

/* For programs that order their stores themselves. flush starts the write-back of bytes to the
 * medium, fence orders the bytes that this thread flushed before its later stores, persist
 * flushes and settles. */
int heapo_flush(const void *start, size_t size);
int heapo_fence(void);
int heapo_persist(const void *start, size_t size);

#ifdef __cplusplus
}
#endif
#endif
