/* Variables of the executable file. Prints the number of runs of the file. */
#include "require.h"
#include <everbyte/mnemosyne.h>
#include <everbyte/pdata.h>

struct pair {
    int first;
    double second[3];
};

PDATA int runs = BEGIN;
PDATA struct pair pairs[300] = {{0, {0, 0, 0}}, {1, {2, 3, 4}}};
PDATA void *block;
pstatic int all = BEGIN; /* the program's, whichever file it is in */

int main(int count, char **words) {
    (void)words;
    MUST(pairs[1].first == 1 + runs - BEGIN && pairs[299].second[2] == runs - BEGIN);
    MUST(!block == (runs == BEGIN) && (runs == BEGIN || !memcmp(block, "kept", 5)));
    if (!block) {
        MUST(pmalloc_set(5, &block, 0));
        memcpy(block, "kept", 5);
        MUST(mnemosyne_flush(block, 5) && mnemosyne_fence());
    }
    pairs[1].first++, pairs[299].second[2]++;
    printf("%d %d\n", ++runs, ++all);
    if (count > 1) { /* until its input ends */
        fflush(stdout);
        (void)getchar();
        printf("%d\n", runs);
    }
    return 0;
}
