/* The order of events when a program starts again: its variables and regions, the settled stores of
 * its blocks, the registered functions, its first block; and a region that was mapped into a
 * variable which a block had changed. Usage: patomic_restart leave | find | map | mapped */
#include "require.h"
#include <everbyte/patomic.h>
#include <signal.h>
#include <sys/mman.h>

enum { WORDS = 64, LAST = 100 };

pstatic uint64_t words[WORDS], *region, *block;
static int ran;

/* A separate function: the compiler does not know that a block may begin with a change of `ran`. */
static EVERBYTE_SAFE __attribute__((noinline)) int told(void) { return ran; }

/* Many blocks, of which the logs still hold some when the program is killed. */
static void leave(void) {
    MUST(pmap(&region, 8192, PROT_READ | PROT_WRITE, 0));
    region[600] = LAST;
    MUST(mnemosyne_flush(&region[600], 8) && mnemosyne_fence());
    for (uint64_t number = 1; number <= LAST; number++) {
        patomic {
            for (int at = 0; at < WORDS; at++) words[at] = number;
            if (number == LAST) {
                pmalloc(64, &block);
                *block = number;
            }
        }
    }
    raise(SIGKILL);
}

/* All settled values exist, and blocks may use them, too. */
static void first(void *context) {
    uint64_t seen = 0;
    MUST(context == words && ran == 0);
    for (int at = 0; at < WORDS; at++) MUST(words[at] == LAST);
    MUST(region[600] == LAST && *block == LAST);
    patomic { seen = words[1], pfree(&block); }
    MUST(seen == LAST && !block && pmalloc(64, &block));
    *block = LAST;
    MUST(mnemosyne_flush(block, 8) && mnemosyne_fence());
    ran++;
}

static void second(void *context) {
    MUST(context == NULL && ran == 1);
    ran++;
}

static void find(void) {
    int before = 0;
    MUST(mnemosyne_at_restart(first, words) && mnemosyne_at_restart(second, NULL) && told() == 0);
    patomic {
        before = told();
        words[0]++;
    }
    MUST(before == 2 && words[0] == LAST + 1);
    patomic { words[0]--; }
    MUST(told() == 2);
}

/* The log still holds the block when the program is killed. */
static void map(void) {
    patomic { region = NULL; }
    MUST(pmap(&region, 8192, PROT_READ | PROT_WRITE, 0));
    region[600] = LAST;
    MUST(mnemosyne_flush(&region[600], 8) && mnemosyne_fence());
    raise(SIGKILL);
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "leave")) leave();
    if (count > 1 && !strcmp(arguments[1], "find")) return find(), 0;
    if (count > 1 && !strcmp(arguments[1], "map")) map();
    if (count > 1 && !strcmp(arguments[1], "mapped")) return MUST(region && region[600] == LAST), 0;
    return 2;
}
