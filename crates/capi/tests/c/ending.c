/* Calls of a thread that is ending, after its thread-local values: in a function that runs at exit,
 * as destructors of static objects do, and in the destructor of a key.
 * Usage: ending exit | thread */
#include "require.h"
#include <everbyte/heapo_kv.h>
#include <everbyte/kv.h>
#include <everbyte/posix.h>
#include <pthread.h>

static const char *object = "chunks", *word;
static void *chunk, *other;
static heapo_kv *pairs[2];
static eb_kv kv;
static eb_kv_batch batch;
static eb_process *process;

/* Makes and uses all that the library keeps for a thread, and leaves some of it begun. */
static void use(void) {
    FAILS(heapo_malloc("absent", 8), ENOENT);
    MUST((chunk = heapo_malloc(object, 8)) && (other = heapo_malloc(object, 8)));
    memset(chunk, 1, 8);
    for (int kind = 0; kind < 2; kind++) MUST(heapo_kv_insert(pairs[kind], "used", 4, word, 4) || errno == EEXIST);
    MUST(!eb_process_use(process));
    MUST(heapo_lock(object) && heapo_tx_begin(object) && heapo_tx_append(object, chunk, 8));
    memset(chunk, 2, 8);
    MUST((batch = eb_kv_begin(kv)) && eb_kv_batch_put(batch, 0, "batch", 5, word, 4));
}

/* Transactions, locks and batches are given up, and none can be begun; other calls work as ever. */
static void late(void) {
    size_t len = 0;
    char value[4];
    FAILS(heapo_free("absent", chunk), ENOENT);
    MUST(*(char *)chunk == 1);
    MUST(heapo_free(object, chunk) && (chunk = heapo_calloc(object, 2, 8)) && heapo_free(object, chunk));
    FAILS(heapo_free(object, chunk), EINVAL);
    FAILS(heapo_tx_end(object), EINVAL);
    FAILS(heapo_tx_begin(object), EPERM);
    FAILS(heapo_tx_append(object, other, 8), EINVAL);
    FAILS(heapo_tx_abort(object), EINVAL);
    FAILS(heapo_unlock(object), EPERM);
    FAILS(heapo_lock(object), EPERM);
    MUST(heapo_free(object, other));
    for (int kind = 0; kind < 2; kind++) {
        FAILS(heapo_kv_lookup(pairs[kind], "absent", 6, NULL, 0, NULL), ENOENT);
        MUST(heapo_kv_insert(pairs[kind], word, 4, word, 4) && heapo_kv_delete(pairs[kind], "used", 4));
        MUST(heapo_kv_lookup(pairs[kind], word, 4, value, 4, &len) && len == 4 && !memcmp(value, word, 4));
    }
    FAILS(eb_kv_get(kv, "absent", 6, NULL, 0, NULL), ENOENT);
    FAILS(eb_kv_get(kv, "batch", 5, NULL, 0, NULL), ENOENT);
    FAILS(eb_kv_batch_put(batch, 0, "a", 1, "b", 1), EBADF);
    FAILS(eb_kv_commit(batch), EBADF);
    FAILS(eb_kv_begin(kv), EPERM);
    MUST(eb_kv_put(kv, word, 4, word, 4) && eb_kv_close(kv));
    FAILS(eb_kv_close(kv), EBADF);
    MUST(eb_close(-1) == -1 && errno == EBADF);
    MUST(eb_process_use(process) == -1 && errno == EPERM && !eb_process_use(NULL));
    eb_process_free(process);
    puts("late");
}

static pthread_key_t key;

static void of_key(void *value) {
    (void)value;
    late();
}

static void *thread(void *unused) {
    MUST(!pthread_setspecific(key, object));
    use();
    return unused;
}

/* The words of the runs before are there. */
static void begin(const char *before) {
    MUST(heapo_create(object) || heapo_map(object));
    for (int kind = 0; kind < 2; kind++) {
        const char *name = kind ? "tree" : "hash";
        MUST((pairs[kind] = heapo_kv_open(name)) || (pairs[kind] = heapo_kv_init(name, (heapo_kv_kind)kind, 0)));
        MUST(!before || heapo_kv_lookup(pairs[kind], before, 4, NULL, 0, NULL));
    }
    MUST((kv = eb_kv_open("kv", EB_KV_CREATE)) && (process = eb_process_new()));
    MUST(!before || eb_kv_get(kv, before, 4, NULL, 0, NULL));
}

int main(int count, char **arguments) {
    pthread_t one;
    if (count > 1 && !strcmp(arguments[1], "exit")) {
        word = "main";
        begin(NULL);
        MUST(!atexit(late));
        use();
        return 0;
    }
    if (count > 1 && !strcmp(arguments[1], "thread")) {
        word = "thrd";
        begin("main");
        MUST(!pthread_key_create(&key, of_key) && !pthread_create(&one, NULL, thread, NULL));
        return pthread_join(one, NULL);
    }
    return 2;
}
