/* A hash table that outlives its process: counts the words it is given, in this run and in all
 * before.
 *
 *     cc hash.c -leverbyte -o hash && ./hash to be or not to be && ./hash be
 *
 * A bucket is made where `fresh` points, filled, and only then linked: a thread that follows a link
 * finds a whole bucket. */
#include <everbyte/mnemosyne.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS = 1024 };

struct bucket {
    struct bucket *next;
    uint64_t count;
    char word[];
};

pstatic struct bucket **table;
pstatic struct bucket *fresh;

static void must(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "hash: %s: %s\n", what, everbyte_error());
    exit(1);
}

static struct bucket **chain_of(const char *word) {
    uint64_t hash = 14695981039346656037u;
    while (*word) hash = (hash ^ (unsigned char)*word++) * 1099511628211u;
    return &table[hash % CHAINS];
}

/* Stores a pointer, before anything that is stored later. */
static void link_to(struct bucket **place, struct bucket *bucket) {
    *place = bucket;
    must(mnemosyne_flush(place, sizeof *place) && mnemosyne_order(), "linking");
}

/* The rest of an insertion after a crash: a bucket that is linked already, or one without a
 * link. */
static void recover(void) {
    if (!table) must(pmalloc_set(CHAINS * sizeof *table, &table, 0) != NULL, "making the table");
    if (fresh && *chain_of(fresh->word) == fresh) link_to(&fresh, NULL);
    must(pfree(&fresh), "recovering");
}

static void count(const char *word) {
    struct bucket **chain = chain_of(word), *bucket = *chain;
    while (bucket && strcmp(bucket->word, word) != 0) bucket = bucket->next;
    if (bucket) {
        mnemosyne_wtstore(&bucket->count, bucket->count + 1);
    } else {
        const size_t size = sizeof *bucket + strlen(word) + 1;
        must(pmalloc_set(size, &fresh, 0) != NULL, "no room");
        fresh->next = *chain;
        fresh->count = 1;
        strcpy(fresh->word, word);
        must(mnemosyne_flush(fresh, size) && mnemosyne_order(), "filling");
        link_to(chain, fresh);
        link_to(&fresh, NULL);
    }
    must(mnemosyne_fence(), "settling");
}

int main(int words, char **word) {
    recover();
    for (int i = 1; i < words; i++) {
        count(word[i]);
        fprintf(stderr, "counted %s\n", word[i]);
    }
    for (int chain = 0; chain < CHAINS; chain++)
        for (const struct bucket *bucket = table[chain]; bucket; bucket = bucket->next)
            printf("%llu %s\n", (unsigned long long)bucket->count, bucket->word);
    return 0;
}
