/* Transactions whose bodies are functions: threads move money between accounts, others add up;
 * bodies that undo their effects, alone or nested; memory that is allocated and freed. Prints the
 * number of runs. Arguments: rounds, threads. */
#include "everbyte/atomically.h"
#include "require.h"
#include <pthread.h>

#define ACCOUNTS 8

struct account {
    long balance;
    char moves;
};

pstatic struct account accounts[ACCOUNTS];
pstatic long runs;
pstatic void *block;
static long plain, rounds = 1000;

struct move {
    int from, to;
    long amount;
};

static int move(void *with) {
    const struct move *move = with;
    struct account *from = &accounts[move->from], *to = &accounts[move->to];
    TXW(&from->balance, TXR(&from->balance) - move->amount);
    TXW(&to->balance, TXR(&to->balance) + move->amount);
    TXW(&to->moves, TXR(&to->moves) + 1);
    TXW(&plain, TXR(&plain) + 1);
    return 1;
}

static int sum(void *into) {
    long found = 0;
    for (int at = 0; at < ACCOUNTS; at++) found += TXR(&accounts[at].balance);
    *(long *)into = found;
    return 1;
}

static void *work(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    for (long round = 0; round < rounds; round++) {
        random = random * 1103515245 + 12345;
        struct move moved = {random >> 8 & 7, random >> 16 & 7, random >> 20};
        long found = 1;
        if (moved.from != moved.to) MUST(everbyte_atomically(move, &moved));
        MUST(everbyte_atomically(sum, &found) && found == 0);
    }
    return NULL;
}

static int taken_back(void *unused) {
    (void)unused;
    TXW(&runs, -1);
    TXW(&plain, -1);
    MUST(TXALLOCATE(100, &block));
    return 0;
}

static int with_one_inside(void *kept) {
    TXW(&runs, TXR(&runs) + 1);
    MUST(!everbyte_atomically(taken_back, NULL));
    MUST(TXR(&block) == NULL && TXR(&plain) == *(long *)kept);
    return 1;
}

static int allocate(void *unused) {
    (void)unused;
    return TXALLOCATE(1000, &block) != NULL;
}

static int drop(void *unused) {
    (void)unused;
    return TXFREE(&block);
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = atol(argv[1]);
    const int threads = argc > 2 ? atoi(argv[2]) : 2;
    pthread_t others[16];
    for (long thread = 0; thread < threads; thread++)
        MUST(pthread_create(&others[thread], NULL, work, (void *)(thread + 1)) == 0);
    for (int thread = 0; thread < threads; thread++) pthread_join(others[thread], NULL);
    long before = runs, kept = plain;
    MUST(kept > 0 && !everbyte_atomically(taken_back, NULL) && runs == before && plain == kept && block == NULL);
    MUST(everbyte_atomically(with_one_inside, &kept) && runs == before + 1);
    MUST(everbyte_atomically(allocate, NULL) && block && everbyte_atomically(drop, NULL) && block == NULL);
    printf("%ld\n", runs);
    return 0;
}
