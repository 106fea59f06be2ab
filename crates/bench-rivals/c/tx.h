/* Transactions of libpmemobj that abort the program when they fail: a bench has nothing else to do
 * then. */

#ifndef EVERBYTE_RIVAL_TX_H
#define EVERBYTE_RIVAL_TX_H

#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>

static inline void must(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "libpmemobj could not %s: %s\n", what, pmemobj_errormsg());
        abort();
    }
}

static inline void begin(PMEMobjpool *pool) {
    must(pmemobj_tx_begin(pool, NULL, TX_PARAM_NONE) == 0, "begin");
}

static inline void commit(void) {
    pmemobj_tx_commit();
    must(pmemobj_tx_end() == 0, "commit");
}

#endif
