/* Programs for the explorer: `right` and `pair` keep their promises, the others do not. The parts
 * named `look` check. */
#include "require.h"
#include <everbyte/crash.h>
#include <everbyte/heapo.h>
#include <everbyte/heapo_kv.h>
#include <stdint.h>

struct node {
    uint64_t value, proof;
    struct node *next;
};

static void fill(struct node *node, uint64_t value) {
    node->value = value;
    node->proof = ~value;
    node->next = heapo_get_prime_node("list");
}

/* Each number in a transaction. */
static void right(uint64_t value) {
    MUST(heapo_tx_begin("list"));
    struct node *node = heapo_malloc("list", sizeof *node);
    fill(node, value);
    MUST(heapo_set_prime_node("list", node));
    MUST(heapo_tx_end("list"));
}

/* Published before it is flushed. */
static void unflushed(uint64_t value) {
    struct node *node = heapo_malloc("list", sizeof *node);
    fill(node, value);
    MUST(heapo_set_prime_node("list", node));
    MUST(heapo_persist(node, sizeof *node));
}

static heapo_kv *pairs;

/* A pair in the hash store. */
static void pair(uint64_t value) {
    MUST(heapo_kv_insert(pairs, &value, sizeof value, &value, sizeof value));
}

static long look_pairs(void) {
    long count = 0;
    for (uint64_t key = 1; key <= 2; key++) {
        uint64_t value = 0;
        size_t len = 0;
        if (heapo_kv_lookup(pairs, &key, sizeof key, &value, sizeof value, &len)) {
            MUST(len == sizeof value && value == key && count == (long)key - 1);
            count++;
        }
    }
    return count;
}

/* The newest node is incremented in place through a value that no crash may leave: only single
 * steps see it. */
static void detour(uint64_t value) {
    struct node *node = heapo_get_prime_node("list");
    if (!node) {
        right(value);
        return;
    }
    volatile uint64_t *next = (volatile uint64_t *)&node->next;
    *next = 1; /* meant as a lock */
    *next = 0;
    MUST(heapo_persist(node, sizeof *node));
}

static uint64_t look(void) {
    uint64_t count = 0;
    for (struct node *node = heapo_get_prime_node("list"); node; node = node->next, count++) {
        MUST((uintptr_t)node % 16 == 0 && (uintptr_t)node > 4096);
        MUST(node->value == ~node->proof);
    }
    return count;
}

/* `step` for 1 and 2: begun and acknowledged. */
static void promise(const char *part, void (*step)(uint64_t)) {
    for (uint64_t value = 1; value <= 2; value++) {
        char name[32];
        snprintf(name, sizeof name, "%s %d", part, (int)value);
        everbyte_crash_begin(name);
        step(value);
        everbyte_crash_acked();
    }
}

/* All acknowledged numbers exist, and no number whose operation had not begun. */
static void judge(long found) {
    MUST(found >= everbyte_crash_seen_acked() && found <= everbyte_crash_seen_begun());
}

int main(int argc, char **argv) {
    MUST(argc == 2);
    const char *part = argv[1];
    if (!strcmp(part, "make")) {
        MUST(heapo_create("list") && (pairs = heapo_kv_init("pairs", HEAPO_KV_HASH, 1 << 20)));
    } else if (strstr(part, "pair")) {
        MUST(pairs = heapo_kv_open("pairs"));
        everbyte_crash_recovered();
        strcmp(part, "look-pairs") ? promise(part, pair) : judge(look_pairs());
    } else {
        MUST(heapo_map("list"));
        everbyte_crash_recovered();
        if (!strcmp(part, "right")) promise(part, right);
        if (!strcmp(part, "unflushed")) promise(part, unflushed);
        if (!strcmp(part, "detour")) promise(part, detour);
        if (!strcmp(part, "look-detour")) look();
        if (!strcmp(part, "look")) {
            long found = (long)look();
            judge(found);
            right(100); /* it still works */
            MUST((long)look() == found + 1);
        }
    }
    return 0;
}
