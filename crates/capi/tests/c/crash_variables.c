/* Programs with persistent variables for the explorer, in C and in C++: `blocks` and `flushes` keep
 * their promises, the others do not. The parts named `look` check. */
#include "require.h"
#include <everbyte/crash.h>
#include <everbyte/patomic.h>
#include <stdint.h>

struct node {
    struct node *next;
    uint64_t value, proof;
};

pstatic struct node *list;
pstatic uint64_t length;
/* Each in a line of its own: one marks the other as valid. */
pstatic struct {
    uint64_t value, fill[7], ready, more[7];
} pair;

/* Each number in a block. */
static void block(uint64_t value) {
    patomic {
        struct node *next = list;
        struct node *node = (struct node *)pmalloc(sizeof *node, &list);
        node->next = next;
        node->value = value;
        node->proof = ~value;
        length++;
    }
}

/* The value first, then the mark that it is valid. */
static void flush(uint64_t value) {
    pair.value = value * 7;
    MUST(mnemosyne_flush(&pair.value, 8) && mnemosyne_order());
    pair.ready = value;
    MUST(mnemosyne_flush(&pair.ready, 8) && mnemosyne_fence());
}

/* Flushed in the right order, but stored in the wrong one: a cache may write a line back before it
 * is flushed. */
static void early(uint64_t value) {
    pair.ready = value;
    pair.value = value * 7;
    MUST(mnemosyne_flush(&pair.value, 8) && mnemosyne_order());
    MUST(mnemosyne_flush(&pair.ready, 8) && mnemosyne_fence());
}

/* The value is never flushed. */
static void forgotten(uint64_t value) {
    pair.value = value * 7;
    pair.ready = value;
    MUST(mnemosyne_flush(&pair.ready, 8) && mnemosyne_fence());
}

static void promise(const char *part, void (*step)(uint64_t)) {
    for (uint64_t value = 1; value <= 2; value++) {
        everbyte_crash_begin(part);
        step(value);
        everbyte_crash_acked();
    }
}

/* All acknowledged numbers exist, and no number whose operation had not begun. */
static void judge(uint64_t found) {
    MUST((long)found >= everbyte_crash_seen_acked() && (long)found <= everbyte_crash_seen_begun());
}

static uint64_t walk(void) {
    uint64_t count = 0;
    for (struct node *node = list; node; node = node->next, count++) MUST(node->proof == ~node->value);
    MUST(count == length);
    return count;
}

int main(int argc, char **argv) {
    MUST(argc == 2);
    const char *part = argv[1];
    everbyte_crash_recovered(); /* before main */
    if (!strcmp(part, "blocks")) promise(part, block);
    if (!strcmp(part, "flushes")) promise(part, flush);
    if (!strcmp(part, "early")) promise(part, early);
    if (!strcmp(part, "forgotten")) promise(part, forgotten);
    if (!strcmp(part, "look-blocks")) {
        uint64_t found = walk();
        judge(found);
        block(100); /* it still works */
        MUST(walk() == found + 1);
    }
    if (!strcmp(part, "look-pair")) {
        judge(pair.ready);
        MUST(pair.value >= pair.ready * 7);
    }
    return 0;
}
