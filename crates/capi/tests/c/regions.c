/* Regions, tried call by call. Usage: regions PART */
#define _POSIX_C_SOURCE 200809L
#include "require.h"
#include <everbyte/mnemosyne.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { PAGE = 4096, BOTH = PROT_READ | PROT_WRITE, MANY = 80 };

pstatic char *region, *frozen, **inner;
pstatic char *first_address;
pstatic char *many[MANY];

static sigjmp_buf back;
static void caught(int signal) { siglongjmp(back, signal); }

/* Whether storing to a byte is refused by the system. */
static int refused(volatile char *byte) {
    signal(SIGSEGV, caught), signal(SIGBUS, caught);
    if (sigsetjmp(back, 1)) return 1;
    *byte = 1;
    return 0;
}

static void first(void) {
    char *here;
    FAILS(pmap(&here, PAGE, BOTH, 0), EINVAL);
    FAILS(pmap(NULL, PAGE, BOTH, 0), EINVAL);
    FAILS(pmap((char *)&region + 4, PAGE, BOTH, 0), EINVAL);
    FAILS(pmap(&region, 0, BOTH, 0), EINVAL);
    FAILS(pmap(&region, PAGE, BOTH, 1), EINVAL);
    FAILS(pmap(&region, PAGE, 64, 0), EINVAL);
    FAILS(pmap(&region, SIZE_MAX, BOTH, 0), ENOSPC);
    FAILS(pmap(&region, (size_t)1 << 45, BOTH, 0), ENOSPC);
    MUST(region == NULL);
    MUST(pmap(&region, 100 * PAGE + 1, BOTH, 0) == region && (uintptr_t)region % PAGE == 0);
    for (int at = 0; at < 101 * PAGE; at++) MUST(region[at] == 0);
    memset(region, 7, 101 * PAGE);
    MUST(mnemosyne_flush(region, 101 * PAGE) && mnemosyne_fence());
    MUST(pmap(&frozen, PAGE, PROT_READ, 0) && frozen[PAGE - 1] == 0 && refused(frozen));
    inner = (char **)region; /* a pointer in a region leads to another */
    MUST(pmap(&inner[1], 3 * PAGE, BOTH, 0) == inner[1]);
    first_address = region;
}

static void second(void) {
    MUST(region == first_address && region[101 * PAGE - 1] == 7 && refused(frozen));
    FAILS(punmap(region + 1, PAGE), EINVAL);
    FAILS(punmap(&inner, PAGE), EINVAL);
    FAILS(punmap(region + 40 * PAGE, 0), EINVAL);
    MUST(punmap(region + 40 * PAGE, 40 * PAGE)); /* out of the middle */
    MUST(region[40 * PAGE - 1] == 7 && region[80 * PAGE] == 7 && refused(region + 60 * PAGE));
    FAILS(punmap(region + 50 * PAGE, PAGE), EINVAL);
    MUST(punmap(region + 90 * PAGE, 11 * PAGE)); /* the end */
    MUST(region[90 * PAGE - 1] == 7 && refused(region + 90 * PAGE));
    MUST(punmap(frozen, PAGE));
    frozen = NULL;
}

static void third(void) {
    MUST(region[40 * PAGE - 1] == 7 && region[80 * PAGE] == 7 && region[90 * PAGE - 1] == 7);
    MUST(inner[1] && punmap(inner[1], 3 * PAGE));
    FAILS(punmap(inner[1], 3 * PAGE), EINVAL);
    MUST(punmap(region, 101 * PAGE)); /* all that is left */
    FAILS(punmap(region, 101 * PAGE), EINVAL);
    MUST(pmap(&region, 200 * PAGE, BOTH, 0)); /* perhaps where others were, and zeros again */
    for (int at = 0; at < 200 * PAGE; at++) MUST(region[at] == 0);
    region[0] = 1;
    MUST(punmap(region, 200 * PAGE));
}

/* More regions than a page of their table has lines. */
static void fill(void) {
    for (int i = 0; i < MANY; i++) {
        MUST(pmap(&many[i], PAGE, BOTH, 0));
        many[i][5] = (char)i;
        MUST(mnemosyne_flush(many[i], 64));
    }
    MUST(mnemosyne_fence());
}

static void look(void) {
    for (int i = 0; i < MANY; i++) MUST(many[i][5] == (char)i && punmap(many[i], PAGE));
}

int main(int count, char **words) {
    const char *part = count > 1 ? words[1] : "";
    if (!strcmp(part, "first")) return first(), 0;
    if (!strcmp(part, "second")) return second(), 0;
    if (!strcmp(part, "third")) return third(), 0;
    if (!strcmp(part, "fill")) return fill(), 0;
    if (!strcmp(part, "look")) return look(), 0;
    return 2;
}
