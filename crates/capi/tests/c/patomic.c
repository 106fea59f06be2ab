/* One counter that blocks raise, in steps that a crash could tear. Arguments: the number of the
 * run's rounds. */
#include "everbyte/patomic.h"
#include <stdio.h>
#include <stdlib.h>

pstatic long count;
pstatic long parts[16];

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    for (int part = 0; part < 16; part++)
        if (parts[part] != count) {
            printf("torn: part %d is %ld and the count %ld\n", part, parts[part], count);
            return 1;
        }
    for (long round = 0; round < rounds; round++)
        patomic {
            count++;
            for (int part = 0; part < 16; part++)
                parts[part]++;
        }
    printf("%ld\n", count);
    return 0;
}
