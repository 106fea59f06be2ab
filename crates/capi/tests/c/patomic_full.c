/* Blocks in a heap without room. Usage: patomic_full make | full | after */
#include "everbyte/patomic.h"
#include "require.h"

enum { WORDS = 1 << 17, LEAST = 4096 };

pstatic long one;
pstatic long *words;          /* more of them than a log takes */
pstatic void *chain, *fresh; /* blocks, each of which begins with the address of the next */

static int take(size_t size) {
    int taken = 0;
    patomic {
        void **block = pmalloc(size, &fresh);
        if (block) {
            block[0] = chain;
            chain = block;
            fresh = NULL;
            taken = 1;
        }
    }
    return taken;
}

static void change(long value) {
    patomic {
        one = value;
        for (long word = 0; word < WORDS; word++) words[word] = value;
    }
}

static int is_all(long value) {
    for (long word = 0; word < WORDS; word++)
        if (words[word] != value) return 0;
    return one == value;
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "";
    if (!strcmp(part, "make")) {
        patomic { pmalloc_set(WORDS * sizeof *words, &words, 0); }
        MUST(words);
        change(1);
    } else if (!strcmp(part, "full")) {
        for (size_t size = 1 << 20; size >= LEAST;)
            if (!take(size)) size /= 2;
        MUST(chain && !fresh);
        long *block = words; /* the block goes on without one */
        patomic {
            block = pmalloc(LEAST, &fresh);
            one = block ? 0 : 2;
        }
        MUST(!block && !fresh && one == 2);
        patomic { one = 1; }
        change(3); /* ends the process */
    } else {
        MUST(is_all(1) && chain && !fresh);
        while (chain) {
            int freed = 0;
            patomic {
                fresh = chain;
                chain = *(void **)fresh;
                freed = pfree(&fresh);
            }
            MUST(freed);
        }
        change(4);
        MUST(is_all(4) && take(1 << 20) && pfree(&chain) && pfree(&words));
    }
    return 0;
}
