/* The cost of patomic blocks in C programs, for the bench: each line of its input names the
 * operation, how many words a block touches and how many times; the answer is the nanoseconds that
 * all of it took. */
#define _POSIX_C_SOURCE 200809L
#include "everbyte/patomic.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WORDS 4096

pstatic unsigned long words[WORDS];
static volatile unsigned long sink;

static void load(unsigned long count) {
    unsigned long sum = 0;
    patomic {
        for (unsigned long word = 0; word < count; word++)
            sum += words[word];
    }
    sink = sum;
}

static void store(unsigned long count, unsigned long value) {
    patomic {
        for (unsigned long word = 0; word < count; word++)
            words[word] = value;
    }
}

int main(void) {
    char what[8];
    unsigned long count, times;
    while (scanf("%7s %lu %lu", what, &count, &times) == 3 && count <= WORDS) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (unsigned long turn = 0; turn < times; turn++)
            if (strcmp(what, "load") == 0)
                load(count);
            else
                store(count, turn);
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%ld\n", (end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec);
        fflush(stdout);
    }
    return 0;
}
