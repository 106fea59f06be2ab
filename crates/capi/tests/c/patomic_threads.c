/* Conflicting threads, in persistent memory and in the heap: each block reads a consistent state,
 * its result is that of one run, and no update is lost. Arguments: rounds, threads. */
#include "everbyte/patomic.h"
#include "require.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 16

struct node {
    struct node *next;
    long key, count;
    char letters[13];
    float single;
    double twice;
    long double wide;
};

pstatic struct node *kept;
pstatic long total, check;
static struct node *made;
static long made_total;
static long rounds = 1000;

static void raise(struct node *node, long by) {
    node->count += by;
    node->letters[node->key % 13] += (char)by;
    node->single += by;
    node->twice += by;
    node->wide += by;
}

/* A separate function, so that its block is nested. */
static __attribute__((noinline)) void raise_inside(struct node *nodes, long key) {
    patomic {
        while (nodes->key != key)
            nodes = nodes->next;
        raise(nodes, 1);
    }
}

static __attribute__((noinline)) void fill(int *into, int count, int from) {
    for (int at = 0; at < count; at++)
        into[at] = from + at;
}

__attribute__((transaction_pure, noinline)) static void linger(void) {
    for (volatile int turn = 0; turn < 50; turn++)
        ;
}

__attribute__((transaction_pure, noinline)) static void require_equal(long one, long other) {
    MUST(one == other);
}

static void *work(void *argument) {
    long id = (long)argument;
    unsigned seed = (unsigned)id * 77 + 5;
    for (long round = 0; round < rounds; round++) {
        long first = seed % NODES;
        seed = seed * 1103515245 + 12345;
        long second = (seed >> 8) % NODES;
        int runs = 0, filled[8], array[4] = {0, 1, 2, 3};
        long a = round, b = round * 2, c = round * 3, d = round * 5, e = round * 7, f = round * 11;
        double real = round * 1.5;
        struct {
            long up, down;
            char text[24];
        } pair = {round, -round, "hello"};
        patomic {
            runs++;
            a += 1; b += a; c ^= b; d += c; e -= d; f += e;
            real += 0.5;
            array[round & 3] += 100;
            pair.up += 5; pair.down -= 5; pair.text[0]++;
            fill(filled, 8, (int)round);
            long before = total;
            raise_inside(kept, first);
            linger();
            raise_inside(made, second);
            made_total++;
            total = before + 1;
            check += 1;
            require_equal(total, check);
        }
        MUST(runs == 1);
        long A = round + 1, B = round * 2 + A, C = (round * 3) ^ B, D = round * 5 + C, E = round * 7 - D, F = round * 11 + E;
        MUST(a == A && b == B && c == C && d == D && e == E && f == F && real == round * 1.5 + 0.5);
        for (int at = 0; at < 8; at++)
            MUST(filled[at] == round + at);
        for (int at = 0; at < 4; at++)
            MUST(array[at] == at + (at == (round & 3) ? 100 : 0));
        MUST(pair.up == round + 5 && pair.down == -round - 5 && strcmp(pair.text, "iello") == 0);
    }
    return NULL;
}

/* One certain conflict: a block has read a word, and waits until another block has changed it. */
static atomic_int stage, runs;
pstatic long shared;

__attribute__((transaction_pure, noinline)) static void let_the_other_commit(void) {
    runs++;
    if (stage > 0)
        return;
    stage = 1;
    while (*(volatile long *)&shared == 0) /* its block ends only when this one has been run again */
        sched_yield();
}

static void *change(void *unused) {
    while (stage != 1)
        sched_yield();
    patomic { shared += 1; }
    return unused;
}

static void conflict(void) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, change, NULL) == 0);
    long local = 1, other[3] = {1, 2, 3};
    patomic {
        local++;
        other[1] += 10;
        long seen = shared;
        let_the_other_commit();
        shared = seen + 1;
    }
    pthread_join(thread, NULL);
    MUST(runs == 2 && shared == 2);
    MUST(local == 2 && other[1] == 12);
}

static long sum(struct node *node, long *count) {
    long sum = 0;
    for (; node; node = node->next, ++*count) {
        MUST(node->twice == node->count && node->wide == node->count && node->single == node->count);
        MUST(node->letters[node->key % 13] == (char)node->count);
        sum += node->count;
    }
    return sum;
}

int main(int argc, char **argv) {
    MUST(argc == 3);
    rounds = atol(argv[1]);
    long threads = atol(argv[2]), counted = 0;
    for (long key = 0; key < NODES; key++)
        patomic {
            struct node *after = kept, *node = pmalloc_set(sizeof *node, &kept, 0);
            node->key = key;
            node->next = after;
            struct node *other = malloc(sizeof *other);
            memset(other, 0, sizeof *other);
            other->key = key;
            other->next = made;
            made = other;
        }
    conflict();
    pthread_t all[8];
    for (long id = 0; id < threads; id++)
        MUST(pthread_create(&all[id], NULL, work, (void *)id) == 0);
    for (long id = 0; id < threads; id++)
        pthread_join(all[id], NULL);
    MUST(total == rounds * threads && check == total && made_total == total);
    MUST(sum(kept, &counted) == total && sum(made, &counted) == total);
    MUST(counted == 2 * NODES);
    return 0;
}
