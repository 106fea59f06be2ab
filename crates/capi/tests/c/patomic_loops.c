/* Loops that GCC would turn into plain memset and memcpy, which bypass a transaction. */
#include "everbyte/patomic.h"

long words[1000], others[1000];

EVERBYTE_SAFE __attribute__((noinline)) void clear(long *from, int count) {
    for (int at = 0; at < count; at++)
        from[at] = 0;
}

EVERBYTE_SAFE __attribute__((noinline)) void copy(long *restrict to, const long *restrict from, int count) {
    for (int at = 0; at < count; at++)
        to[at] = from[at];
}

void both(int count) {
    patomic {
        clear(words, count);
        copy(others, words, count);
    }
}
