/* A child of fork does not inherit its parent's store: its calls fail, and its exit leaves the
 * parent's mappings. */
#define _POSIX_C_SOURCE 200809L
#include "require.h"
#include <everbyte/heapo_kv.h>
#include <everbyte/mnemosyne.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

pstatic void *block;
pstatic char *region;

static char *chunk;
static heapo_kv *kv;
static mnemosyne_log *records;

static int any(const char *name, void *context) {
    (void)name, (void)context;
    return 1;
}

static void objects(void) {
    FAILS(heapo_malloc("f", 10), EPERM);
    FAILS(heapo_free("f", chunk), EPERM);
    FAILS(heapo_get_prime_node("f"), EPERM);
    FAILS(heapo_map("f"), EPERM);
    FAILS(heapo_unmap("f"), EPERM);
    FAILS(heapo_create("g"), EPERM);
    FAILS(heapo_delete("f"), EPERM);
    FAILS(heapo_list(NULL, any, NULL), EPERM);
    FAILS(heapo_lock("f"), EPERM);
    FAILS(heapo_tx_begin("f"), EPERM);
    FAILS(heapo_tx_end("f"), EPERM);
    FAILS(heapo_persist(chunk, 8), EPERM);
    FAILS(heapo_fence(), EPERM);
    FAILS(heapo_open(getenv("EVERBYTE_STORE")), EPERM);
}

static void pairs(void) {
    char value[8];
    FAILS(heapo_kv_lookup(kv, "a", 1, value, sizeof value, NULL), EPERM);
    FAILS(heapo_kv_insert(kv, "b", 1, "2", 1), EPERM);
    FAILS(heapo_kv_delete(kv, "a", 1), EPERM);
    FAILS(heapo_kv_open("more"), EPERM);
}

static void variables(void) {
    uint64_t word = 1;
    FAILS(pmalloc(10, &block), EPERM);
    FAILS(pfree(&block), EPERM);
    FAILS(pmap(&region, 4096, PROT_READ, 0), EPERM);
    FAILS(punmap(chunk, 4096), EPERM);
    FAILS(mnemosyne_flush(&block, 8), EPERM);
    FAILS(mnemosyne_wtcopy(&block, &word, 8), EPERM);
    FAILS(mnemosyne_fence(), EPERM);
    FAILS(log_create("more", 4096, 0, NULL, NULL), EPERM);
    FAILS(log_append(records, &word, 1), EPERM);
    FAILS(log_flush(records), EPERM);
    FAILS(log_truncate(records), EPERM);
}

int main(void) {
    uint64_t word = 7;
    MUST((kv = heapo_kv_init("pairs", HEAPO_KV_TREE, 0)) && heapo_kv_insert(kv, "a", 1, "1", 1));
    MUST((records = log_create("records", 4096, 0, NULL, NULL)) && log_append(records, &word, 1));
    MUST(pmalloc(100, &block) && heapo_create("f") && (chunk = heapo_calloc("f", 1, 100)));
    MUST(heapo_set_prime_node("f", chunk) && heapo_tx_begin("f"));
    MUST(heapo_tx_append("f", chunk, 8) && strcpy(chunk, "parent"));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        objects(), pairs(), variables();
        heapo_kv_close(kv), log_close(records);
        exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    MUST(heapo_tx_end("f") && !strcmp(chunk, "parent") && heapo_free("f", chunk));
    MUST(heapo_lock("f") && heapo_lock("f") && heapo_malloc("f", 10) && heapo_unlock("f"));
    FAILS(heapo_unmap("f"), EBUSY);
    MUST(heapo_unlock("f") && heapo_delete("f"));
    MUST(heapo_kv_lookup(kv, "a", 1, NULL, 0, NULL) && heapo_kv_insert(kv, "b", 1, "2", 1));
    MUST(log_append(records, &word, 1) && log_flush(records) && pfree(&block));
    return 0;
}
