/* Blocks inside blocks, cancelled blocks, memory that they allocate and free, and a block that
 * changes a megabyte. */
#include "everbyte/patomic.h"
#include "require.h"
#include <sys/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pstatic long one, two;
pstatic char text[40];
pstatic void *block, *large, *region;
static long plain;

static void cancelled(void) {
    long local = 1;
    patomic {
        one = 5;
        plain = 5;
        local = 5;
        block = NULL;
        pmalloc(100, &block);
        patomic_cancel;
    }
    MUST(one == 0 && plain == 0 && local == 1 && block == NULL);
}

static void cancelled_inside(void) {
    long local = 1, cancel = 1;
    patomic {
        one = 1;
        plain = 1;
        local = 2;
        patomic {
            one = 2;
            two = 2;
            plain = 2;
            local = 3;
            memcpy(text, "taken back", 11);
            free(malloc(10));
            if (cancel)
                patomic_cancel;
        }
        two += 10;
    }
    MUST(one == 1 && two == 10 && plain == 1 && local == 2 && text[0] == 0);
}

/* Variables of a function that a block calls: newer than the block, older than one inside that is
 * cancelled. */
EVERBYTE_SAFE __attribute__((noinline)) void change_and_cancel(long *at, long with) {
    patomic {
        at[0] = with;
        at[1] += with;
        patomic_cancel;
    }
}

EVERBYTE_SAFE __attribute__((noinline)) long between(long with) {
    long mine[2] = {with, with};
    change_and_cancel(mine, with + 1);
    return mine[0] == with && mine[1] == with;
}

static void cancelled_above(void) {
    long good = 0;
    patomic { good = between(3); }
    MUST(good);
}

static void bytes(void) {
    patomic {
        memcpy(text + 3, "between words", 14);
        text[0] = 'x';
        memmove(text + 5, text + 3, 14);
    }
    MUST(memcmp(text, "x\0\0bebetween words", 19) == 0);
}

static int leaves(int how) {
    patomic {
        one += 1;
        if (how)
            return 7;
    }
    return 0;
}

static void memory(void) {
    patomic { pmalloc_set(100, &block, 'b'); }
    MUST(block && ((char *)block)[99] == 'b');
    int freed;
    patomic { freed = pfree(&block); }
    MUST(freed && block == NULL);
    patomic { freed = pfree(&block); }
    MUST(freed);
    block = text;
    patomic { freed = pfree(&block); }
    MUST(!freed && block == text);
    block = NULL;
}

#define MANY (1 << 17)

static void much(void) {
    patomic { pmalloc_set(MANY * 8, &large, 0); }
    long *words = large;
    MUST(words);
    patomic {
        for (long word = 0; word < MANY; word++)
            words[word] = word;
    }
    for (long word = 0; word < MANY; word++)
        MUST(words[word] == word);
}

#define GIGABYTE (1L << 30)

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "elsewhere") == 0) {
        MUST(heapo_create("other"));
        long *words = heapo_malloc("other", 64);
        MUST(words);
        patomic { words[0] = 1; } /* ends the process */
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "region") == 0) {
        if (!region) MUST(pmap(&region, 8192, PROT_READ | PROT_WRITE, 0));
        patomic { *(long *)region = 1; } /* ends the process */
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "gigabyte") == 0) {
        patomic { pmalloc(GIGABYTE, &large); }
        MUST(large);
        one = 7;
        MUST(mnemosyne_flush(&one, sizeof one) && mnemosyne_fence());
        patomic {
            one = 8;
            for (long at = 0; at < GIGABYTE; at += 8)
                *(long *)((char *)large + at) = 1; /* ends the process */
        }
        return 0;
    }
    if (argc > 1) { /* after it */
        MUST(large && one == 7 && *(long *)large == 0 && pfree(&large));
        MUST(pmalloc_set(1000, &large, 1) && pfree(&large));
        puts("as it was");
        return 0;
    }
    cancelled();
    cancelled_inside();
    cancelled_above();
    bytes();
    MUST(leaves(1) == 7 && leaves(0) == 0 && one == 3);
    memory();
    much();
    return 0;
}
