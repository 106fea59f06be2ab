/* Persistent variables in several files, and blocks allocated into them. Usage: pstatic PART */
#include "pstatic.h"
#include "require.h"
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

pstatic uint64_t runs = 40;
static pstatic char text[5000] = "first";
pstatic void *block, *other;
#ifdef MORE
pstatic int more;
#endif
#ifdef ADDRESS
pstatic uint64_t *address = &runs;
#endif

/* Every variable holds the value of the last run, and its initial value at first. */
static void count(void) {
    MUST(pairs[7].first == (int)(runs - 40) && pairs[7].second == 0.5 + pairs[7].first);
    MUST(*inside() == 3 + pairs[7].first && !strcmp(text, runs == 40 ? "first" : "later"));
    MUST(text[4999] == pairs[7].first);
    strcpy(text, "later");
    text[4999]++;
    ++*inside(), pairs[7].first++, pairs[7].second++, runs++;
    printf("%d\n", (int)runs);
}

/* The same, killed at the end: flushed values exist on every backend. */
static void flushed(void) {
    count();
    MUST(mnemosyne_flush(text, sizeof text) && mnemosyne_flush(pairs, sizeof pairs));
    MUST(mnemosyne_flush(inside(), sizeof(int)) && mnemosyne_flush(&runs, sizeof runs) && mnemosyne_fence());
    fflush(stdout);
    abort();
}

static sem_t held;

static void *hold(void *unused) {
    MUST(heapo_create("held") && heapo_lock("held") && heapo_tx_begin("held"));
    MUST(heapo_malloc("held", 8) && !sem_post(&held));
    for (;;) pause();
    return unused;
}

/* The same in a program that ends while another thread is in a transaction. */
static void beside(void) {
    pthread_t one;
    count();
    MUST(!sem_init(&held, 0, 0) && !pthread_create(&one, NULL, hold, NULL) && !sem_wait(&held));
}

static void heap(void) {
    uint64_t here, *wild = &here;
    FAILS(pmalloc(8, wild), EINVAL);                  /* not persistent */
    FAILS(pmalloc(8, (char *)&block + 4), EINVAL);    /* not a pointer's place */
    FAILS(pmalloc(8, (void *)UINTPTR_MAX), EINVAL);
    FAILS(pmalloc(8, NULL), EINVAL);
    FAILS(pmalloc(SIZE_MAX, &block), ENOMEM);
    FAILS(pmalloc((size_t)1 << 40, &block), ENOMEM);
    FAILS(pfree(wild), EINVAL);
    MUST(block == NULL && pfree(&block));
    MUST(pmalloc(100, &block) == block && block && (uintptr_t)block % 16 == 0);
    void **words = pmalloc_set(9000, &other, 0x5a);
    MUST(words == other);
    for (int at = 0; at < 9000; at++) MUST(((char *)words)[at] == 0x5a);
    MUST(pmalloc_set(0, &words[3], 0) == words[3] && words[3]); /* into a block */
    words[4] = words[3];
    FAILS(pmalloc(8, words + (1 << 27)), EINVAL); /* where nothing is yet */
    MUST(pfree(&words[3]) && words[3] == NULL);
    FAILS(pfree(&words[4]), EINVAL); /* twice */
    words[4] = (char *)block + 16;
    FAILS(pfree(&words[4]), EINVAL); /* inside */
    words[4] = &words;
    FAILS(pfree(&words[4]), EINVAL); /* wild */
    MUST(words[4] == &words);
    MUST(pfree(&other) && other == NULL && pfree(&other));
    MUST(heapo_create("objects") && heapo_set_prime_node("objects", heapo_calloc("objects", 4, 8)));
    void **node = heapo_get_prime_node("objects");
    MUST(pmalloc(64, &node[1]) == node[1] && heapo_free("objects", node[1])); /* an object's own heap */
}

/* The blocks of an earlier run. */
static void again(void) {
    MUST(block && pfree(&block) && !block);
}

int main(int count_of_words, char **words) {
    const char *part = count_of_words > 1 ? words[1] : "";
    if (!strcmp(part, "count")) return count(), 0;
    if (!strcmp(part, "flushed")) return flushed(), 0;
    if (!strcmp(part, "beside")) return beside(), 0;
    if (!strcmp(part, "heap")) return heap(), 0;
    if (!strcmp(part, "again")) return again(), 0;
    return 2;
}
