/* Single operations of libpmemobj, each as `cargo xtask bench objects` times it: in transactions of
 * BATCH operations where that says so, with the clock around the operations alone or around the
 * transaction, as for ours.
 *
 * Answers nanoseconds for `count` operations on objects of `size` bytes.
 * THREADS: one per pool. */

#include "tx.h"
#include <stdint.h>
#include <string.h>
#include <time.h>

enum row { DEREF, ALLOC, FREE, DATA_LOG, DROP_LOG, NEW_FREE, DEREF_MUT };

#define BATCH 100

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void allocate(PMEMoid *oids, uint64_t count, uint64_t size) {
    for (uint64_t i = 0; i < count; i++) {
        oids[i] = pmemobj_tx_alloc(size, 1);
        must(!OID_IS_NULL(oids[i]), "allocate");
    }
}

static void release(const PMEMoid *oids, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        must(pmemobj_tx_free(oids[i]) == 0, "free");
}

static uint64_t deref(PMEMobjpool *pool, uint64_t count, uint64_t size) {
    PMEMoid oids[BATCH];
    begin(pool);
    allocate(oids, BATCH, size);
    for (int i = 0; i < BATCH; i++)
        *(uint32_t *)pmemobj_direct(oids[i]) = (uint32_t)i;
    commit();
    uint32_t sum = 0;
    uint64_t start = now();
    for (uint64_t done = 0; done < count; done += BATCH)
        for (int i = 0; i < BATCH; i++)
            sum += *(volatile uint32_t *)pmemobj_direct(oids[i]);
    uint64_t took = now() - start;
    (void)sum;
    begin(pool);
    release(oids, BATCH);
    commit();
    return took * count / ((count + BATCH - 1) / BATCH * BATCH);
}

static uint64_t deref_mut(PMEMobjpool *pool, uint64_t count, uint64_t size) {
    PMEMoid oid;
    begin(pool);
    allocate(&oid, 1, size);
    uint64_t start = now();
    for (uint64_t i = 0; i < count; i++)
        *(volatile uint64_t *)pmemobj_direct(oid) = i;
    uint64_t took = now() - start;
    release(&oid, 1);
    commit();
    return took;
}

/* The root object holds the one that is there. */
static uint64_t new_free(PMEMobjpool *pool, uint64_t count, uint64_t size) {
    PMEMoid *slot = pmemobj_direct(pmemobj_root(pool, sizeof(PMEMoid)));
    uint64_t start = now();
    for (uint64_t i = 0; i < count; i++) {
        begin(pool);
        PMEMoid oid = pmemobj_tx_alloc(size, 1), old = *slot;
        must(!OID_IS_NULL(oid), "allocate");
        *(uint64_t *)pmemobj_direct(oid) = i;
        must(pmemobj_tx_add_range_direct(slot, sizeof *slot) == 0, "add a range");
        *slot = oid;
        if (!OID_IS_NULL(old))
            release(&old, 1);
        commit();
    }
    uint64_t took = now() - start;
    begin(pool);
    must(pmemobj_tx_add_range_direct(slot, sizeof *slot) == 0, "add a range");
    release(slot, 1);
    *slot = OID_NULL;
    commit();
    return took;
}

uint64_t rival_row(PMEMobjpool *pool, int row, uint64_t size, uint64_t count) {
    if (row == DEREF)
        return deref(pool, count, size);
    if (row == DEREF_MUT)
        return deref_mut(pool, count, size);
    if (row == NEW_FREE)
        return new_free(pool, count, size);
    PMEMoid oids[BATCH];
    uint64_t took = 0;
    for (uint64_t done = 0; done < count; done += BATCH) {
        uint64_t batch = count - done < BATCH ? count - done : BATCH, start = now();
        begin(pool);
        allocate(oids, batch, size);
        for (uint64_t i = 0; i < batch; i++)
            memset(pmemobj_direct(oids[i]), (int)i, size);
        commit();
        if (row == ALLOC)
            took += now() - start;
        if (row == DATA_LOG) {
            begin(pool);
            start = now();
            for (uint64_t i = 0; i < batch; i++)
                must(pmemobj_tx_add_range(oids[i], 0, size) == 0, "add a range");
            took += now() - start;
            commit();
        }
        start = now();
        begin(pool);
        if (row == DROP_LOG)
            start = now();
        release(oids, batch);
        if (row == DROP_LOG)
            took += now() - start;
        commit();
        if (row == FREE)
            took += now() - start;
    }
    return took;
}
