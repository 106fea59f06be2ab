/* HEAPO: named persistent objects at fixed addresses, for C and C++.
 *
 * An object is a heap of its own under a name. It lies at one address for life, in every process,
 * so plain pointers into it stay true: after a restart, after a crash, and between objects that are
 * both mapped. Objects live in a store, one file: the one that EVERBYTE_STORE names, or
 * ./everbyte.store, made when it is first used. EVERBYTE_BACKEND (auto, pmem, file, shm) and
 * EVERBYTE_DURABILITY (always, interval:MS, process) say how it is opened. Where EVERBYTE_BROKER
 * names the socket of an `everbyte broker`, EVERBYTE_STORE names one of its domains instead, made
 * if there is none: the broker passes the store to change or to read, as the rights of the domain
 * allow, and the kernel lets nobody do more. Link with -leverbyte.
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
 * What survives. After a crash each aligned 8-byte word holds its settled value or one stored
 * since, and whatever was flushed before a fence is there if anything stored after it is.
 * heapo_tx_end and heapo_persist settle: what they cover survives the process and a power cut.
 * Everything stored and never flushed may be lost, at a clean end too.
 *
 * Calls return 1, or a pointer; on failure 0, or NULL, with errno and everbyte_error() set, and
 * nothing changed. THREADS: any, not from signal handlers; a transaction belongs to the thread that
 * began it.
 *
 * Sharing. On pmem and shm several processes may have the store open, and map one object, which
 * lies at the same addresses in all: what one stores the others see at once, as they do when the
 * object grows. A transaction, and each call that allocates or frees, has the object alone until it
 * ends: other processes, and other threads, wait. So take two objects in the same order everywhere.
 * When a process dies, however it dies, its transaction is rolled back, or finished if it had
 * committed, by whoever takes the object next. What is read and stored outside of transactions is
 * guarded by heapo_lock. A child of fork inherits nothing: its calls fail with EPERM, its pointers
 * lead nowhere, and its end unmaps nothing here; let it exec, or fork before the store is opened.
 * On other backends a process has the store alone.
 *
 * After Hwang, Jung, Won: "HEAPO: Heap-Based Persistent Object Store", ACM Transactions on Storage
 * 11(1), 2014. */
#ifndef EVERBYTE_HEAPO_H
#define EVERBYTE_HEAPO_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sentence about this thread's last failed call: what, where, and what to do. Good until its next
 * failed call. */
const char *everbyte_error(void);

/* Opens the store at `path`, or makes it; NULL: the one said above. Other calls do so by
 * themselves. A process uses one store, until it ends.
 * Fails with EBUSY if another process has it alone, EACCES if a broker's rights give nothing,
 * ECONNREFUSED if none answers, ENOTSUP if it is not bound to an address (`everbyte create --bound`
 * makes one that is), EADDRINUSE if this process has something at that address, EUCLEAN if it is
 * damaged. */
int heapo_open(const char *path);

/* Makes the object `name` and maps it. Settled on return: a crash leaves it whole or absent. Names
 * are UTF-8 paths of at most 128 bytes, such as "shop/orders".
 * Fails with EEXIST, EINVAL for what is no name, ENOSPC. */
int heapo_create(const char *name);

/* heapo_create for an object that can grow to `size_max` bytes, its own records included, rounded
 * up to a power of two of at least 1 MiB; 0: 64 MiB, as heapo_create has it. That reserves
 * addresses, of which a store made here has 256 GiB, no memory. Fails as heapo_create does; ENOSPC
 * where so many addresses are not left. */
int heapo_create_sized(const char *name, size_t size_max);

/* Maps an object that exists; one that is mapped stays so. What a crash left half done is rolled
 * back first. Fails with ENOENT, EACCES if its rights do not allow it, EPERM if it is not an object
 * of this kind, EUCLEAN if it is damaged. */
int heapo_map(const char *name);

/* Maps an object to be read: a store of the program's to it is a fault (SIGSEGV), and calls that
 * change it fail with EACCES. It is enough if its rights allow reading. Objects of a store that
 * this process may only read are mapped so by heapo_map, too. heapo_lock waits as ever, and holds
 * writers off. One that is mapped stays as it is. Fails as heapo_map does. */
int heapo_map_to_read(const char *name);

/* Unmaps an object. Pointers into it must not be used until it is mapped again. Other processes
 * keep it. Fails with ENOENT if it is not mapped, EBUSY while a transaction on it runs or it is
 * locked. */
int heapo_unmap(const char *name);

/* 1 if this process has the object mapped, else 0. */
int heapo_is_mapped(const char *name);

/* Deletes an object with everything in it. Settled on return.
 * Fails with ENOENT, EBUSY while a transaction on it runs, it is locked, or another process has it
 * mapped. */
int heapo_delete(const char *name);

/* Calls `each` with the names of all objects that begin with `prefix` (NULL: all), in order, until
 * it returns 0. */
int heapo_list(const char *prefix, int (*each)(const char *name, void *context), void *context);

/* Who may map an object: `mode` is read 4 and write 2, in octal digits for owner, group and others;
 * 0660 in a new one, which belongs to its maker's user and group. chown gives it another owner or
 * group; (unsigned)-1 keeps the one there is. Both count from the next heapo_map on and are settled
 * on return. Within one store rights stop accidents, not adversaries. Fails with ENOENT, EACCES if
 * it is not yours, EINVAL for other bits in `mode`. */
int heapo_chmod(const char *name, unsigned mode);
int heapo_chown(const char *name, unsigned owner, unsigned group);

/* Lets at most so many clusters (64 KiB each) of an object be in memory at once, on backends pmem
 * and shm; the others lie in a backing file beside the store, and come back when they are loaded or
 * stored to. 0: all of them may be in memory. Of such an object one process has the use. A system
 * call that is given a pointer to what is not in memory fails with EFAULT: touch it first. A
 * program with its own handler for SIGSEGV installs it before it maps the object, or calls from it
 * the handler that it found. Settled on return.
 * Fails with ENOENT, EBUSY while anybody has the object mapped, EACCES, EINVAL for fewer clusters
 * than it needs or on backend file, ENOSPC. set_quota says how many clusters the object may have at
 * all: chunks beyond it are refused with EDQUOT. 0: as many as fit. */
int heapo_set_resident(const char *name, size_t clusters);
int heapo_set_quota(const char *name, size_t clusters);

/* The pointer that everything in the object is found from; NULL in a new one. */
void *heapo_get_prime_node(const char *name);

/* Sets it; `node` points into the object or is NULL. Settled on return, with everything flushed
 * before; inside a transaction it is part of that. */
int heapo_set_prime_node(const char *name, void *node);

/* Allocates at least `size` bytes, aligned to 16. malloc leaves anything in them, calloc zeros.
 * Inside a transaction the chunk is the transaction's own until that ends: stores to it need no
 * heapo_tx_append and are flushed by heapo_tx_end; an abort or a crash gives it back. Outside, it
 * is allocated on return, so that a crash before something points to it leaks it.
 * Fails with ENOSPC if the object has grown to its size (heapo_create_sized) or the disk is full,
 * ENOMEM for more than an object can hold. */
void *heapo_malloc(const char *name, size_t size);
void *heapo_calloc(const char *name, size_t count, size_t size);

/* A chunk of `size` bytes with what `chunk` held, as far as it fits: the same one where it will do,
 * else another, and `chunk` is freed. NULL for `chunk`: malloc. */
void *heapo_realloc(const char *name, void *chunk, size_t size);

/* Frees a chunk; inside a transaction at its end. NULL: does nothing. First make sure that nothing
 * on media points to it. Fails with EINVAL for a pointer that is no chunk of this object, or is
 * free already. */
int heapo_free(const char *name, void *chunk);

/* Begins a transaction on an object: what is named by heapo_tx_append, allocated, freed and set
 * until heapo_tx_end happens whole or not at all. Inside another of this thread on the same object
 * it is part of that one. */
int heapo_tx_begin(const char *name);

/* Notes what `start .. start + size` holds, so that it may be stored to; one fence. Only what
 * undoing needs is to be noted: usually one pointer, which takes a line of the log, as up to 48
 * bytes do. Fails with EINVAL without a transaction, or for bytes that are not of a chunk or the
 * prime node. */
int heapo_tx_append(const char *name, const void *start, size_t size);

/* Ends the innermost transaction. At the outermost everything stored to noted ranges and new chunks
 * is flushed, the transaction commits, and is settled on return.
 * Fails with ECANCELED, rolled back, if one inside was aborted; EIO: unknown until the store is
 * opened again. */
int heapo_tx_end(const char *name);

/* Ends the innermost transaction; the outermost is rolled back: by this call, or by its own
 * heapo_tx_end. */
int heapo_tx_abort(const char *name);

/* Waits until this thread has the object alone among all that share it, and gives it to the next.
 * May be nested, and a transaction may run inside. It guards what programs read and store by
 * themselves; nothing is flushed or rolled back for it. unlock fails with EPERM if this thread has
 * not locked it. */
int heapo_lock(const char *name);
int heapo_unlock(const char *name);

/* Lets an object grow by at least `size` bytes, in clusters of 64 KiB, so that so many are
 * allocated later without asking the file system. It grows by itself when it is full. Seen by all
 * who share it. Fails with ENOSPC, ENOMEM for more than an object can hold. */
int heapo_expand(const char *name, size_t size);

/* Gives the clusters that lie wholly in `start .. start + size` back to the file system; NULL for
 * `start`: all that hold no chunk. Much that is free is given back without this. Seen by all who
 * share the object; it grows again when it needs to. Fails with EBUSY, and nothing has changed, if
 * a chunk lies in one of them, or what the object itself needs. */
int heapo_shrink(const char *name, const void *start, size_t size);

/* For programs that order their stores themselves. Flush starts carrying bytes to media, fence
 * orders what this thread flushed before whatever it stores later, persist flushes and settles. */
int heapo_flush(const void *start, size_t size);
int heapo_fence(void);
int heapo_persist(const void *start, size_t size);

#ifdef __cplusplus
}
#endif
#endif
