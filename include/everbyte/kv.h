/* The ordered key-value store, for C and C++: keys in the order of their bytes, tables with names,
 * batches that are whole or absent after a crash, snapshots, and versions with names.
 *
 *     eb_kv cities = eb_kv_open("cities", EB_KV_CREATE);
 *     eb_kv_put(cities, "Oslo", 4, "Norway", 6); (settled: survives a power cut)
 *
 * 1. Keys and values are byte strings: keys of at most 16 MiB, values of less than 1 TiB.
 * 2. The store is the one of heapo.h, and need not be bound to an address; the first call opens it.
 * 3. Handles are numbers that are used once in a process. One that was closed, is of another kind,
 *    or never was, is an error (EBADF), and so is a null pointer (EFAULT).
 * 4. Calls return 1, or a handle. On failure they return 0, set errno and everbyte_error(), and
 *    change nothing, unless they say otherwise.
 * 5. THREADS: any, not from signal handlers. A batch belongs to the thread that began it, and is
 *    given up when the thread ends; a cursor is used by one thread at a time. Functions that run at
 *    exit, and destructors of static objects and of keys, may make calls; they begin no batch. */
#ifndef EVERBYTE_KV_H
#define EVERBYTE_KV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open key-value store, with its main table. */
typedef uint64_t eb_kv;
/* A table with a name. */
typedef uint64_t eb_kv_table;
/* A settled version that stays as it is: of a whole store with its main table, or of one table. */
typedef uint64_t eb_kv_view;
/* A place among the entries of a view. */
typedef uint64_t eb_kv_cursor;
/* Several writes that happen together. */
typedef uint64_t eb_kv_batch;

/* Flags of eb_kv_open and eb_kv_table_open: makes what is absent; refuses what is there. */
#define EB_KV_CREATE 1u
#define EB_KV_EXCL 2u

/* Why the last call of this thread failed; valid until its next failed call. */
const char *everbyte_error(void);

/* Opens the key-value store of this name.
 * Fails with ENOENT, EEXIST, EBUSY if this process has it open, EUCLEAN, EINVAL for other flags. */
eb_kv eb_kv_open(const char *name, unsigned flags);

/* Closes a handle of any kind; a batch is given up. The key-value store itself can be opened again
 * once its tables, views and cursors are closed, too. Fails with EBADF. */
int eb_kv_close(uint64_t handle);

/* Opens a table. With EB_KV_CREATE settled on return. Fails with ENOENT, EEXIST, EBUSY if this
 * thread has a batch. */
eb_kv_table eb_kv_table_open(eb_kv kv, const char *name, unsigned flags);

/* Removes a table with all its keys. Settled on return; views keep what they see.
 * Fails with ENOENT, EBUSY if this thread has a batch. */
int eb_kv_table_drop(eb_kv kv, const char *name);

/* Receives each name; returns 0 to end the list. The name is valid during the call only. */
typedef int (*eb_kv_each)(const char *name, void *context);

/* Calls `each` with the name of every table, in the order of their bytes. */
int eb_kv_tables(eb_kv kv, eb_kv_each each, void *context);

/* Binds a value to a key of a store's main table, or of a table. Settled on return.
 * Fails with ENOSPC, E2BIG, EBUSY if this thread has a batch, ENOENT if the table was dropped. */
int eb_kv_put(uint64_t to, const void *key, size_t key_len, const void *value, size_t value_len);

/* Removes a key. Settled on return. Fails with ENOENT if it is not there, and as eb_kv_put. */
int eb_kv_delete(uint64_t from, const void *key, size_t key_len);

/* Copies the value of a key to `value`, at most `room` bytes of it, and stores its length to
 * `value_len` (may be NULL). `from` is a store, a table or a view. Fails with ENOENT, EUCLEAN. */
int eb_kv_get(uint64_t from, const void *key, size_t key_len, void *value, size_t room, size_t *value_len);

/* Stores the number of keys of a store's main table, a table or a view to `count`. */
int eb_kv_count(uint64_t of, uint64_t *count);

/* Holds the newest settled version of a store. */
eb_kv_view eb_kv_snapshot(eb_kv kv);

/* A table as a view of the whole store sees it. Fails with ENOENT if it is newer than the view. */
eb_kv_view eb_kv_view_table(eb_kv_view view, eb_kv_table table);

/* A cursor over the keys from `low` on and before `high`, of a store, a table or a view; NULL for
 * either: no border. It keeps its version by itself. */
eb_kv_cursor eb_kv_range(uint64_t from, const void *low, size_t low_len, const void *high, size_t high_len);

/* A cursor over the keys that begin with `prefix`. */
eb_kv_cursor eb_kv_prefix(uint64_t from, const void *prefix, size_t prefix_len);

/* The next entry from the start; the pointers are valid until the cursor moves or is closed. Each
 * may be NULL. Behind the last entry it returns 0 and sets errno to 0. Fails with EUCLEAN. */
int eb_kv_next(eb_kv_cursor cursor, const void **key, size_t *key_len, const void **value, size_t *value_len);

/* As eb_kv_next, from the end. Both ends of one cursor may be used; they meet in the middle. */
int eb_kv_prev(eb_kv_cursor cursor, const void **key, size_t *key_len, const void **value, size_t *value_len);

/* Begins a batch; other writers of the store wait until it ends.
 * Fails with EBUSY if this thread has a batch of the store, EPERM if it is ending and has begun one
 * before. */
eb_kv_batch eb_kv_begin(eb_kv kv);

/* Writes of a batch, to a table, or with 0 to the main table; readers see them after the commit.
 * After a failure with ENOSPC or EUCLEAN the batch can only go back to a savepoint, or be
 * given up. */
int eb_kv_batch_put(eb_kv_batch batch, eb_kv_table table, const void *key, size_t key_len, const void *value,
                    size_t value_len);

/* Removes a key. Fails with ENOENT if it is not there. */
int eb_kv_batch_delete(eb_kv_batch batch, eb_kv_table table, const void *key, size_t key_len);

/* Removes the keys from `low` on and before `high`, NULL for either: no border. Stores how many
 * there were to `count` (may be NULL). */
int eb_kv_batch_delete_range(eb_kv_batch batch, eb_kv_table table, const void *low, size_t low_len, const void *high,
                             size_t high_len, uint64_t *count);

/* Hands out the next entry of a load; its bytes are valid until the next call. 0: there is none.
 * It may read stores and write to other batches; the batch of the load is closed to it (EBADF). */
typedef int (*eb_kv_source)(void *context, const void **key, size_t *key_len, const void **value, size_t *value_len);

/* Loads entries in bulk, in ascending order of their keys, into a range in which the table has
 * none: whole leaves are written, once. Stores how many to `count` (may be NULL). Fails with EINVAL
 * for a key that is not larger than the one before it, and with EEXIST for one in whose way another
 * is; then nothing is loaded, and the batch is as it was before. */
int eb_kv_batch_load(eb_kv_batch batch, eb_kv_table table, eb_kv_source next, void *context, uint64_t *count);

/* As eb_kv_get, with the writes of the batch. */
int eb_kv_batch_get(eb_kv_batch batch, eb_kv_table table, const void *key, size_t key_len, void *value, size_t room,
                    size_t *value_len);

/* Marks this place of the batch: a number from 1 on. */
uint64_t eb_kv_savepoint(eb_kv_batch batch);

/* Goes back to a savepoint, which stays; later ones go. Fails with EINVAL for one that is gone. */
int eb_kv_roll_back(eb_kv_batch batch, uint64_t savepoint);

/* Commits and settles: all writes of the batch survive a power cut. The batch is closed, also on
 * failure; then none of its writes happened, but for EIO: the outcome is unknown until the store is
 * opened again. */
int eb_kv_commit(eb_kv_batch batch);

/* Gives the newest version a name: it stays readable, across restarts, until the name is removed.
 * Settled on return. Fails with EEXIST. */
int eb_kv_version_name(eb_kv kv, const char *name);

/* Holds the version of this name. Fails with ENOENT. */
eb_kv_view eb_kv_version_open(eb_kv kv, const char *name);

/* Removes the name of a version. Settled on return. Fails with ENOENT. */
int eb_kv_version_remove(eb_kv kv, const char *name);

/* Brings all tables back to the version of this name. Settled on return. Fails with ENOENT. */
int eb_kv_version_restore(eb_kv kv, const char *name);

/* Calls `each` with the name of every version that has one. */
int eb_kv_versions(eb_kv kv, eb_kv_each each, void *context);

/* The figures of one eb_kv_compact: the entries that it has looked at, the leaves that it has
 * replaced and the full ones in their place, the bytes of the tree's blocks before and after, and
 * those that went back to the file system. */
typedef struct eb_kv_compacted {
    uint64_t entries, replaced, written, before, after, trimmed;
} eb_kv_compacted;

/* Gives back all space that the tables do not need: dead entries, room in leaves, clusters of the
 * store. Other threads read and write meanwhile; views and versions with names keep what they see,
 * and their space. Stores the figures to `done` (may be NULL). It is a series of commits, each
 * settled: after a failure those done until then stay, and change no entry.
 * Fails with ENOSPC, EUCLEAN, EBUSY if this thread has a batch. */
int eb_kv_compact(eb_kv kv, eb_kv_compacted *done);

#ifdef __cplusplus
}
#endif

#endif
