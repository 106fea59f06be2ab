/* Blocks over variables that are not the program's: of a library, and PDATA beside pstatic. The
 * same source is the library (LIBRARY), the program, and a program without variables of its own
 * (BARE). Arguments: "library", "pdata", "inside" end the process; "look" prints the values. */
#include "everbyte/patomic.h"
#include "everbyte/pdata.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#ifdef LIBRARY
pstatic long kept, twin;

EVERBYTE_SAFE void keep(long value) { kept = value; }
EVERBYTE_SAFE long get(void) { return kept; }
void keep_both(long value) {
    patomic { kept = twin = value; }
}
#else
EVERBYTE_SAFE void keep(long value);
EVERBYTE_SAFE long get(void);
void keep_both(long value);

#ifndef BARE
pstatic long mine;
PDATA long file;
#else
static long mine, file;
#endif

int main(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "look") == 0) {
        patomic { mine = get(); } /* a load is no change */
        printf("%ld %ld\n", mine, file);
        return 0;
    }
    if (strcmp(word, "library") == 0)
        patomic {
            mine = 1;
            keep(1);
        }
    if (strcmp(word, "pdata") == 0)
        patomic { mine = file = 1; }
    if (strcmp(word, "inside") == 0) keep_both(1);
    raise(SIGKILL); /* settled values must exist */
    return 0;
}
#endif
