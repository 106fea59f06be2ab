/* A hash table of persistent words, changed in patomic blocks: fill puts, replaces and removes
 * until it is killed and prints the number of ended blocks; look walks the table, demands that it
 * is whole, and prints the same number. */
#include "everbyte/patomic.h"
#include "require.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 64
#define KEYS 200

struct entry {
    struct entry *next;
    unsigned long key, sum;
    unsigned long size;
    unsigned char value[];
};

pstatic struct entry *buckets[BUCKETS];
pstatic unsigned long done, entries;

static unsigned long sum_of(const struct entry *entry) {
    unsigned long sum = entry->key * 31 + entry->size;
    for (unsigned long at = 0; at < entry->size; at++)
        sum = sum * 31 + entry->value[at];
    return sum;
}

static void drop(unsigned long key) {
    struct entry **at = &buckets[key % BUCKETS];
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    if (*at) {
        struct entry *next = (*at)->next;
        pfree(at);
        *at = next;
        entries--;
    }
}

static int put(unsigned long key, unsigned long size) {
    drop(key);
    struct entry **bucket = &buckets[key % BUCKETS], *next = *bucket;
    struct entry *entry = pmalloc(sizeof *entry + size, bucket);
    if (!entry)
        return 0;
    entry->next = next;
    entry->key = key;
    entry->size = size;
    memset(entry->value, (int)(key + size), size);
    entry->sum = sum_of(entry);
    entries++;
    return 1;
}

static void fill(void) {
    for (;;) {
        unsigned long round = done, key = round * 7919 % KEYS;
        int full = 0;
        patomic {
            if (round % 3 == 2)
                drop(key);
            else
                full = !put(key, round % 100 * 8 % 777);
            done++;
        }
        MUST(!full);
        printf("%lu\n", done);
        fflush(stdout);
    }
}

static void look(void) {
    unsigned long count = 0;
    for (unsigned long bucket = 0; bucket < BUCKETS; bucket++)
        for (struct entry *entry = buckets[bucket]; entry; entry = entry->next) {
            MUST(entry->key % BUCKETS == bucket);
            MUST(entry->sum == sum_of(entry));
            count++;
        }
    MUST(count == entries);
    printf("%lu\n", done);
}

int main(int argc, char **argv) {
    MUST(argc > 1);
    if (argc > 2)
        everbyte_patomic_asynchronous(strcmp(argv[2], "async") == 0);
    if (strcmp(argv[1], "fill") == 0)
        fill();
    look();
    return 0;
}
