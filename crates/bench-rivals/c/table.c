/* A hash table with chains on libpmemobj, whose values have one length: a put is a transaction,
 * under the lock of its bucket, for transactions are not isolated.
 *
 * THREADS: puts, any. */

#include "tx.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { LOCKS = 256 };

struct entry {
    PMEMoid next;
    uint64_t key;
    unsigned char value[];
};

struct table {
    PMEMobjpool *pool;
    PMEMoid *buckets;
    uint64_t count;
    size_t len;
    pthread_mutex_t locks[LOCKS];
};

/* An empty table, as long as its pool is open. */
struct table *rival_table(PMEMobjpool *pool, uint64_t buckets, size_t len) {
    struct table *table = calloc(1, sizeof *table);
    must(table != NULL, "find memory");
    for (int lock = 0; lock < LOCKS; lock++) pthread_mutex_init(&table->locks[lock], NULL);
    begin(pool);
    PMEMoid all = pmemobj_tx_zalloc(buckets * sizeof *table->buckets, 2);
    must(!OID_IS_NULL(all), "make a table");
    commit();
    table->pool = pool, table->buckets = pmemobj_direct(all), table->count = buckets, table->len = len;
    return table;
}

void rival_table_drop(struct table *table) { free(table); }

void rival_table_put(struct table *table, uint64_t key, const unsigned char *value) {
    uint64_t bucket = key % table->count;
    pthread_mutex_t *lock = &table->locks[bucket % LOCKS];
    pthread_mutex_lock(lock);
    begin(table->pool);
    PMEMoid *head = &table->buckets[bucket];
    struct entry *entry = pmemobj_direct(*head);
    while (entry && entry->key != key) entry = pmemobj_direct(entry->next);
    if (entry) {
        must(pmemobj_tx_add_range_direct(entry->value, table->len) == 0, "log a value");
        memcpy(entry->value, value, table->len);
    } else {
        PMEMoid new = pmemobj_tx_alloc(sizeof *entry + table->len, 3);
        must(!OID_IS_NULL(new), "make an entry");
        entry = pmemobj_direct(new);
        entry->next = *head;
        entry->key = key;
        memcpy(entry->value, value, table->len);
        must(pmemobj_tx_add_range_direct(head, sizeof *head) == 0, "log a bucket");
        *head = new;
    }
    commit();
    pthread_mutex_unlock(lock);
}
