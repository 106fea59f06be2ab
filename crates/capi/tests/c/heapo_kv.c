/* The contract of heapo_kv.h, tried call by call. Usage: heapo_kv PART hash|tree; exits with 0 if
 * the header is right. */
#include "require.h"
#include <everbyte/heapo_kv.h>
#include <stdint.h>

static heapo_kv_kind kind;

static int count(const void *key, size_t key_len, const void *value, size_t value_len, void *context) {
    (void)key, (void)value, (void)key_len, (void)value_len;
    return ++*(int *)context < 3;
}

static void calls(void) {
    FAILS(heapo_kv_open("pairs"), ENOENT);
    FAILS(heapo_kv_init("", kind, 0), EINVAL);
    FAILS(heapo_kv_init("neither", (heapo_kv_kind)7, 0), EINVAL);
    FAILS(heapo_kv_init("large", kind, SIZE_MAX), ENOSPC);
    heapo_kv *kv = heapo_kv_init("pairs", kind, 5 << 20);
    MUST(kv);
    FAILS(heapo_kv_init("pairs", kind, 0), EEXIST);
    FAILS(heapo_kv_open("pairs"), EBUSY);
    FAILS(heapo_delete("pairs"), EBUSY);
    FAILS(heapo_map("pairs"), EPERM);
    MUST(heapo_create("heap"));
    FAILS(heapo_kv_open("heap"), EPERM);
    char value[100] = "";
    size_t len = 0;
    MUST(heapo_kv_insert(kv, "Oslo", 4, "Norway", 6));
    FAILS(heapo_kv_insert(kv, "Oslo", 4, "Denmark", 7), EEXIST);
    MUST(heapo_kv_lookup(kv, "Oslo", 4, value, sizeof value, &len) && len == 6 && !memcmp(value, "Norway", 6));
    MUST(heapo_kv_lookup(kv, "Oslo", 4, value, 2, NULL) && heapo_kv_lookup(kv, "Oslo", 4, NULL, 0, &len) && len == 6);
    FAILS(heapo_kv_lookup(kv, "Oslo", 4, NULL, 1, &len), EINVAL);
    FAILS(heapo_kv_lookup(kv, "Bergen", 6, value, sizeof value, &len), ENOENT);
    FAILS(heapo_kv_update(kv, "Bergen", 6, "", 0), ENOENT);
    FAILS(heapo_kv_delete(kv, "Bergen", 6), ENOENT);
    FAILS(heapo_kv_insert(kv, NULL, 1, "", 0), EINVAL);
    FAILS(heapo_kv_insert(NULL, "a", 1, "", 0), EINVAL);
    FAILS(heapo_kv_scan(kv, NULL, NULL), EINVAL);
    MUST(heapo_kv_insert(kv, NULL, 0, NULL, 0)); /* the empty key, with an empty value */
    MUST(heapo_kv_lookup(kv, "", 0, value, sizeof value, &len) && len == 0);
    MUST(heapo_kv_update(kv, "Oslo", 4, "Noreg", 5));
    MUST(heapo_kv_lookup(kv, "Oslo", 4, value, sizeof value, &len) && len == 5 && !memcmp(value, "Noreg", 5));
    for (uint32_t key = 0; key < 1000; key++) MUST(heapo_kv_insert(kv, &key, sizeof key, value, sizeof value));
    int seen = 0;
    MUST(heapo_kv_scan(kv, count, &seen) && seen == 3);
    MUST(heapo_kv_delete(kv, "Oslo", 4));
    FAILS(heapo_kv_delete(kv, "Oslo", 4), ENOENT);
    heapo_kv_close(NULL);
    heapo_kv_close(kv);
    MUST((kv = heapo_kv_open("pairs")));
    FAILS(heapo_kv_lookup(kv, "Oslo", 4, value, sizeof value, &len), ENOENT);
    uint32_t last = 999;
    MUST(heapo_kv_lookup(kv, &last, sizeof last, value, sizeof value, &len) && len == sizeof value);
    heapo_kv_close(kv);
    MUST(heapo_delete("pairs"));
    FAILS(heapo_kv_open("pairs"), ENOENT);
}

/* Collects the first letters of the keys of a scan. */
static int letters(const void *key, size_t key_len, const void *value, size_t value_len, void *context) {
    MUST(key_len >= 1 && value_len == 1 && *(const char *)value == '.');
    strncat(context, key, 1);
    return strlen(context) < 7;
}

static void ordered(void) {
    heapo_kv *kv = heapo_kv_init("ordered", kind, 0);
    MUST(kv);
    for (const char *key = "nighmdebacfljk"; *key; key++) MUST(heapo_kv_insert(kv, key, 1, ".", 1));
    MUST(heapo_kv_insert(kv, "ma", 2, ".", 1) && heapo_kv_insert(kv, "mb", 2, ".", 1));
    char found[9] = "";
    if (kind == HEAPO_KV_HASH) {
        FAILS(heapo_kv_scan_range(kv, "c", 1, "f", 1, HEAPO_KV_FORWARD, letters, found), ENOTSUP);
        FAILS(heapo_kv_scan_prefix(kv, "m", 1, HEAPO_KV_FORWARD, letters, found), ENOTSUP);
        heapo_kv_close(kv);
        return;
    }
    MUST(heapo_kv_scan_range(kv, "c", 1, "f", 1, HEAPO_KV_FORWARD, letters, found) && !strcmp(found, "cde"));
    MUST(heapo_kv_scan_range(kv, NULL, 0, "c", 1, HEAPO_KV_BACKWARD, letters, found) && !strcmp(found, "cdeba"));
    *found = 0;
    MUST(heapo_kv_scan_range(kv, "h", 1, NULL, 0, HEAPO_KV_BACKWARD, letters, found) && !strcmp(found, "nmmmlkj"));
    *found = 0;
    MUST(heapo_kv_scan_prefix(kv, "m", 1, HEAPO_KV_BACKWARD, letters, found) && !strcmp(found, "mmm"));
    *found = 0;
    MUST(heapo_kv_scan(kv, letters, found) && !strcmp(found, "abcdefg"));
    FAILS(heapo_kv_scan_range(kv, "a", 1, NULL, 1, HEAPO_KV_FORWARD, letters, found), EINVAL);
    FAILS(heapo_kv_scan_prefix(kv, "a", 1, (heapo_kv_way)2, letters, found), EINVAL);
    FAILS(heapo_kv_scan_prefix(kv, "a", 1, HEAPO_KV_FORWARD, NULL, found), EINVAL);
    heapo_kv_close(kv);
}

/* Inserts, updates and deletes numbers until it is killed; prints each settled number. */
static void fill(void) {
    heapo_kv *kv = heapo_kv_open("pairs");
    if (!kv) MUST(kv = heapo_kv_init("pairs", kind, 0));
    uint64_t next = 0;
    size_t len;
    while (heapo_kv_lookup(kv, &next, sizeof next, NULL, 0, &len)) next++;
    for (;; next++) {
        MUST(heapo_kv_insert(kv, &next, sizeof next, &next, sizeof next));
        printf("%llu\n", (unsigned long long)next + 1);
        fflush(stdout);
    }
}

static int whole(const void *key, size_t key_len, const void *value, size_t value_len, void *context) {
    uint64_t number;
    memcpy(&number, key, sizeof number);
    MUST(key_len == 8 && value_len == 8 && !memcmp(key, value, 8));
    uint64_t *found = context;
    found[0]++;
    found[1] += number;
    return 1;
}

/* Checks that the numbers are consecutive from 0 on, and prints their count. */
static void look(void) {
    heapo_kv *kv = heapo_kv_open("pairs");
    uint64_t found[2] = {0, 0};
    MUST(kv && heapo_kv_scan(kv, whole, found));
    MUST(found[1] == (found[0] ? found[0] * (found[0] - 1) / 2 : 0));
    printf("%llu\n", (unsigned long long)found[0]);
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    kind = argc > 2 && !strcmp(argv[2], "tree") ? HEAPO_KV_TREE : HEAPO_KV_HASH;
    if (!strcmp(part, "calls")) calls();
    else if (!strcmp(part, "ordered")) ordered();
    else if (!strcmp(part, "fill")) fill();
    else if (!strcmp(part, "look")) look();
    else return 2;
    return 0;
}
