/* HEAPO's key-value stores, for C and C++: a hash table or a tree in a named object, which logs
 * 32 to 64 bytes per change.
 *
 *     heapo_kv *cities = heapo_kv_open("cities");
 *     if (!cities) cities = heapo_kv_init("cities", HEAPO_KV_TREE, 0);
 *     heapo_kv_insert(cities, "Oslo", 4, "Norway", 6); (settled: survives a power cut)
 *
 * 1. Keys and values are byte strings of at most 4 GiB - 1.
 * 2. The store is the one of heapo.h; the first call opens it.
 * 3. Calls return 1, or a pointer. On failure they return 0, or NULL, set errno and
 *    everbyte_error(), and change nothing.
 * 4. THREADS: any, not from signal handlers; one thread changes a key-value store, or several
 *    read it. If processes share the store (heapo.h), one call runs at a time. */
#ifndef EVERBYTE_HEAPO_KV_H
#define EVERBYTE_HEAPO_KV_H

#include "heapo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open key-value store. */
typedef struct heapo_kv heapo_kv;

/* The structure of a key-value store: a hash table finds keys fastest, a tree keeps them in
 * order. */
typedef enum heapo_kv_kind { HEAPO_KV_HASH = 0, HEAPO_KV_TREE = 1 } heapo_kv_kind;

/* Creates an object that holds an empty key-value store, and opens it. It can grow to `size_max`
 * bytes, rounded up to a power of two; 0: 1 GiB. Settled on return: after a crash the object is
 * whole or absent.
 * Fails with EEXIST, EINVAL for an invalid name, ENOSPC. */
heapo_kv *heapo_kv_init(const char *name, heapo_kv_kind kind, size_t size_max);

/* Opens a key-value store of either kind. Recovery first completes or undoes a change that a
 * crash interrupted; its cost does not depend on the number of pairs.
 * REQUIRES: this process has not opened it yet.
 * Fails with ENOENT, EPERM for an object of another kind, EBUSY if it is open, EUCLEAN if it is
 * damaged. */
heapo_kv *heapo_kv_open(const char *name);

/* Closes a key-value store; `kv` must not be used afterwards. NULL: does nothing. */
void heapo_kv_close(heapo_kv *kv);

/* Adds a pair. Settled on return. Fails with EEXIST if the key exists, ENOSPC. */
int heapo_kv_insert(heapo_kv *kv, const void *key, size_t key_len, const void *value, size_t value_len);

/* Replaces the value of a key. Settled on return. Fails with ENOENT, ENOSPC. */
int heapo_kv_update(heapo_kv *kv, const void *key, size_t key_len, const void *value, size_t value_len);

/* Deletes a key with its value. Settled on return. Fails with ENOENT. */
int heapo_kv_delete(heapo_kv *kv, const void *key, size_t key_len);

/* Copies the value of a key to `value`, at most `room` bytes of it, and stores its length to
 * `value_len` (may be NULL). Fails with ENOENT. */
int heapo_kv_lookup(heapo_kv *kv, const void *key, size_t key_len, void *value, size_t room, size_t *value_len);

/* Receives each pair of a scan; returns 0 to end the scan. It must not use the key-value store,
 * and the pointers are valid during the call only. */
typedef int heapo_kv_each(const void *key, size_t key_len, const void *value, size_t value_len, void *context);

/* The direction of a scan of a tree: in the order of keys, as memcmp compares them, or in
 * reverse. */
typedef enum heapo_kv_way { HEAPO_KV_FORWARD = 0, HEAPO_KV_BACKWARD = 1 } heapo_kv_way;

/* Calls `each` with every pair: of a tree in the order of keys, of a hash table in no order. */
int heapo_kv_scan(heapo_kv *kv, heapo_kv_each *each, void *context);

/* Calls `each` with the pairs of a tree whose keys lie from `from` (included) to `to`
 * (excluded); NULL for `to`: to the last key. Fails with ENOTSUP for a hash table. */
int heapo_kv_scan_range(heapo_kv *kv, const void *from, size_t from_len, const void *to, size_t to_len, heapo_kv_way way,
                        heapo_kv_each *each, void *context);

/* Calls `each` with the pairs of a tree whose keys begin with `prefix`. Fails with ENOTSUP for a
 * hash table. */
int heapo_kv_scan_prefix(heapo_kv *kv, const void *prefix, size_t prefix_len, heapo_kv_way way, heapo_kv_each *each,
                         void *context);

#ifdef __cplusplus
}
#endif
#endif
