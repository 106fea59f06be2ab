/* A second file with persistent variables, as C and as C++. */
#include "pstatic.h"

pstatic struct pair pairs[1000] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0.5}};

int *inside(void) {
    pstatic static int value = 3;
    return &value;
}
