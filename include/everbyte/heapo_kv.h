/* HEAPO's key-value stores, for C and C++: a hash table in a named object, which logs one word for an insertion.
 *
 *     heapo_kv *cities = heapo_kv_open("cities");
 *     if (!cities) cities = heapo_kv_init("cities", 0);
 *     heapo_kv_insert(cities, "Oslo", 4, "Norway", 6);      (settled: it survives whatever happens now)
 *
 * Keys and values are byte strings of at most 4 GiB - 1. The store is the one of heapo.h, opened when it is first used.
 * Calls return 1, or a pointer; on failure 0, or NULL, with errno and everbyte_error() set, and nothing changed.
 * THREADS: any; one changes a store, or several read it. One process at a time. */
#ifndef EVERBYTE_HEAPO_KV_H
#define EVERBYTE_HEAPO_KV_H

#include "heapo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open key-value store. */
typedef struct heapo_kv heapo_kv;

/* Makes an object that holds an empty store, and opens it. It can grow to `size_max` bytes, rounded up to a power of two;
 * 0: 1 GiB. Settled on return: a crash leaves it whole or absent.
 * Fails with EEXIST, EINVAL for what is no name, ENOSPC. */
heapo_kv *heapo_kv_init(const char *name, size_t size_max);

/* Opens a store; what a crash left half done is undone first. Costs the same whatever it holds. Open it once.
 * Fails with ENOENT, EPERM for an object of another kind, EBUSY if it is open, EUCLEAN if it is damaged. */
heapo_kv *heapo_kv_open(const char *name);

/* Closes it; `kv` must not be used any more. NULL: does nothing. */
void heapo_kv_close(heapo_kv *kv);

/* Adds a pair. Settled on return. Fails with EEXIST if the key is there, ENOSPC. */
int heapo_kv_insert(heapo_kv *kv, const void *key, size_t key_len, const void *value, size_t value_len);

/* Replaces the value of a key. Settled on return. Fails with ENOENT, ENOSPC. */
int heapo_kv_update(heapo_kv *kv, const void *key, size_t key_len, const void *value, size_t value_len);

/* Takes a key away. Settled on return. Fails with ENOENT. */
int heapo_kv_delete(heapo_kv *kv, const void *key, size_t key_len);

/* Copies the value of a key to `value`, at most `room` bytes of it, and stores its length to `value_len` (may be NULL).
 * Fails with ENOENT. */
int heapo_kv_lookup(heapo_kv *kv, const void *key, size_t key_len, void *value, size_t room, size_t *value_len);

/* Calls `each` with every pair, in no order, until it returns 0. `each` must not use the store. */
int heapo_kv_scan(heapo_kv *kv,
                  int (*each)(const void *key, size_t key_len, const void *value, size_t value_len, void *context),
                  void *context);

#ifdef __cplusplus
}
#endif
#endif
