/* Processes that die with a lock, each with another one. A process that has the store open all
 * along takes the lock next. */
#define _POSIX_C_SOURCE 200809L
#include "require.h"
#include <everbyte/heapo_kv.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const objects[] = {"a", "b"};

enum { OBJECT, READER, TRANSACTION, INSIDE, NAMES, TREE, HASH, KINDS };

static int die_at_name(const char *name, void *context) {
    (void)name, (void)context;
    return raise(SIGKILL);
}

static int die_at_pair(const void *key, size_t key_len, const void *value, size_t value_len, void *context) {
    (void)key, (void)key_len, (void)value, (void)value_len, (void)context;
    return raise(SIGKILL);
}

static void change(const char *name) {
    uint64_t *words = heapo_get_prime_node(name);
    MUST(words && heapo_tx_begin(name) && heapo_tx_append(name, words, 16));
    words[0]++, words[1]++;
    MUST(heapo_malloc(name, 5000) && heapo_free(name, words));
}

static void die(int kind) {
    if (kind == OBJECT) MUST(heapo_map("a") && heapo_lock("a") && heapo_lock("a"));
    if (kind == READER) MUST(heapo_map_to_read("a") && heapo_lock("a"));
    if (kind == TRANSACTION) MUST(heapo_map("a")), change("a");
    if (kind == INSIDE) MUST(heapo_map("a") && heapo_map("b") && heapo_lock("b")), change("a"), change("b");
    if (kind == NAMES) MUST(heapo_list(NULL, die_at_name, NULL));
    if (kind == TREE) MUST(heapo_kv_scan(heapo_kv_open("tree"), die_at_pair, NULL));
    if (kind == HASH) MUST(heapo_kv_scan(heapo_kv_open("hash"), die_at_pair, NULL));
    raise(SIGKILL);
}

/* Takes every lock, and finds everything unchanged. */
static void take_all(heapo_kv *const *pairs) {
    for (int object = 0; object < 2; object++) {
        const char *name = objects[object];
        MUST(heapo_lock(name));
        uint64_t *words = heapo_get_prime_node(name);
        MUST(words[0] == 7 && words[1] == 7 && heapo_tx_begin(name) && heapo_tx_end(name) && heapo_unlock(name));
        MUST(heapo_free(name, heapo_malloc(name, 5000)));
    }
    MUST(heapo_create("fresh") && heapo_delete("fresh"));
    for (int kind = 0; kind < 2; kind++)
        MUST(heapo_kv_insert(pairs[kind], "more", 4, "", 0) && heapo_kv_delete(pairs[kind], "more", 4));
}

int main(void) {
    pid_t children[KINDS];
    int to[KINDS][2], status;
    for (int kind = 0; kind < KINDS; kind++) { /* before the store is open here */
        MUST(!pipe(to[kind]));
        MUST((children[kind] = fork()) >= 0);
        if (children[kind]) continue;
        char byte;
        MUST(read(to[kind][0], &byte, 1) == 1);
        die(kind);
    }
    for (int object = 0; object < 2; object++) {
        const char *name = objects[object];
        MUST(heapo_create(name));
        uint64_t *words = heapo_malloc(name, 16);
        MUST(words);
        words[0] = words[1] = 7;
        MUST(heapo_persist(words, 16) && heapo_set_prime_node(name, words));
    }
    heapo_kv *pairs[] = {heapo_kv_init("tree", HEAPO_KV_TREE, 1 << 20), heapo_kv_init("hash", HEAPO_KV_HASH, 1 << 20)};
    for (int kind = 0; kind < 2; kind++) MUST(pairs[kind] && heapo_kv_insert(pairs[kind], "one", 3, "", 0));
    for (int kind = 0; kind < KINDS; kind++) {
        MUST(write(to[kind][1], "x", 1) == 1 && waitpid(children[kind], &status, 0) == children[kind]);
        MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        take_all(pairs);
        printf("%d\n", kind);
    }
    return 0;
}
