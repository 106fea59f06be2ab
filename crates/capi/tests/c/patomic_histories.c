/* Threads load and store words at random, persistent ones and others. Prints the accesses of each
 * committed block, one per line: word, loaded value, stored value or 0. Arguments: sync or async.
 * */
#include "everbyte/patomic.h"
#include "require.h"
#include <pthread.h>
#include <sched.h>

enum { WORDS = 12, THREADS = 3, ROUNDS = 1500, STEPS = 5 };

struct step {
    unsigned word;
    uint64_t loaded, stored;
};

pstatic uint64_t kept[WORDS / 2];
static uint64_t plain[WORDS / 2];

static struct {
    unsigned count;
    struct step steps[STEPS];
} history[THREADS][ROUNDS];

__attribute__((transaction_pure, noinline)) static void let_others_come(void) { sched_yield(); }

static void *work(void *argument) {
    const uint64_t thread = (uintptr_t)argument;
    uint64_t random = thread * 977 + 1;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        random = random * 6364136223846793005u + 1;
        const uint64_t chosen = random >> 16;
        struct step steps[STEPS];
        unsigned count;
        patomic {
            count = 0;
            for (unsigned step = 0; step <= chosen % STEPS; step++) {
                const unsigned word = (chosen >> (step * 7 + 8)) % WORDS;
                unsigned known = 0;
                while (known < count && steps[known].word != word) known++;
                if (known < count) continue;
                uint64_t *at = word % 2 ? &kept[word / 2] : &plain[word / 2];
                steps[count] = (struct step){word, *at, 0};
                if (chosen >> step & 4) *at = steps[count].stored = (round * THREADS + thread) * 16 + step + 1;
                let_others_come();
                count++;
            }
        }
        history[thread][round].count = count;
        memcpy(history[thread][round].steps, steps, count * sizeof *steps);
    }
    return NULL;
}

int main(int argc, char **argv) {
    everbyte_patomic_asynchronous(argc > 1 && strcmp(argv[1], "async") == 0);
    pthread_t threads[THREADS];
    for (uintptr_t thread = 0; thread < THREADS; thread++)
        MUST(pthread_create(&threads[thread], NULL, work, (void *)thread) == 0);
    for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);
    for (int thread = 0; thread < THREADS; thread++)
        for (int round = 0; round < ROUNDS; round++, puts(""))
            for (unsigned at = 0; at < history[thread][round].count; at++) {
                const struct step *step = &history[thread][round].steps[at];
                printf("%u %llu %llu ", step->word, (unsigned long long)step->loaded, (unsigned long long)step->stored);
            }
    return 0;
}
