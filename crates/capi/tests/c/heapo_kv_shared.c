/* Several processes on one key-value store: every worker has keys of its own, and all change the
 * same tables. */
#include "require.h"
#include <everbyte/heapo_kv.h>

#define WORKERS 16
/* A key lives until this many newer keys exist. */
#define KEPT 8

typedef unsigned long long number;

static heapo_kv *open_store(int kind) {
    heapo_kv *kv;
    while (!(kv = heapo_kv_open("pairs"))) {
        MUST(errno == ENOENT);
        if ((kv = heapo_kv_init("pairs", (heapo_kv_kind)kind, 0))) break;
        MUST(errno == EEXIST); /* another process was faster */
    }
    return kv;
}

static size_t key_of(char *key, number worker, number count) { return (size_t)sprintf(key, "%llu/%llu", worker, count); }

/* Values have all lengths, and contain the count of their stores. */
static size_t value_of(char *value, number worker, number count, char version) {
    size_t len = (size_t)(count * 37 % 900 + worker + 1);
    memset(value, (char)('a' + count % 20), len);
    value[0] = version;
    return len;
}

/* The steps after an insertion: the previous pair is stored again, and the oldest is deleted.
 * Repeatable. */
static void follow(heapo_kv *kv, number worker, number count) {
    char key[64], value[2048];
    if (count > 1) {
        size_t len = value_of(value, worker, count - 1, '2');
        MUST(heapo_kv_update(kv, key, key_of(key, worker, count - 1), value, len));
    }
    if (count > KEPT) MUST(heapo_kv_delete(kv, key, key_of(key, worker, count - KEPT)) || errno == ENOENT);
}

/* The state of each worker: its newest key, and the set of its newest keys. */
struct seen {
    number last[WORKERS], there[WORKERS], count[WORKERS];
};

/* Checks that each pair is whole, and records the newest ones. */
static int see(const void *key, size_t key_len, const void *value, size_t value_len, void *context) {
    struct seen *seen = context;
    char text[64] = {0}, wanted[2048];
    MUST(key_len < sizeof text && value_len > 0);
    memcpy(text, key, key_len);
    number worker, count;
    MUST(sscanf(text, "%llu/%llu", &worker, &count) == 2 && worker < WORKERS);
    MUST(value_len == value_of(wanted, worker, count, *(const char *)value) && !memcmp(value, wanted, value_len));
    number *last = &seen->last[worker];
    if (count > *last) {
        seen->there[worker] = count - *last < 64 ? seen->there[worker] << (count - *last) : 0;
        *last = count;
    }
    if (*last - count < 64) seen->there[worker] |= 1ull << (*last - count);
    seen->count[worker]++;
    return 1;
}

/* Inserts until it is killed, and prints each settled key. */
static void hammer(number worker, int kind) {
    heapo_kv *kv = open_store(kind);
    struct seen seen = {0};
    MUST(heapo_kv_scan(kv, see, &seen));
    number count = seen.last[worker];
    if (count) follow(kv, worker, count);
    for (;;) {
        char key[64], value[2048];
        size_t len = value_of(value, worker, ++count, '1');
        MUST(heapo_kv_insert(kv, key, key_of(key, worker, count), value, len));
        follow(kv, worker, count);
        if (printf("%llu\n", count) < 0 || fflush(stdout)) exit(0); /* the reader has closed the pipe */
    }
}

/* Checks all pairs, and prints the newest key of each worker: the KEPT newest exist, and perhaps
 * the one that is about to be deleted. */
static void look(int kind) {
    heapo_kv *kv = open_store(kind);
    struct seen seen = {0};
    MUST(heapo_kv_scan(kv, see, &seen));
    for (number worker = 0; worker < WORKERS; worker++) {
        number last = seen.last[worker], kept = last < KEPT ? last : KEPT;
        MUST((seen.there[worker] & ((1ull << kept) - 1)) == (1ull << kept) - 1);
        MUST(seen.count[worker] == kept || (seen.count[worker] == KEPT + 1 && seen.there[worker] >> KEPT == 1));
        printf("%llu\n", last);
    }
    heapo_kv_close(kv);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int kind = atoi(argv[3]);
    if (!strcmp(argv[1], "hammer")) hammer(strtoull(argv[2], NULL, 10), kind);
    else if (!strcmp(argv[1], "look")) look(kind);
    else return 2;
    return 0;
}
