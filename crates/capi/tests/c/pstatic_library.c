/* A library that exports a persistent variable, and a program that uses both; LIBRARY selects the
 * library. */
#include <everbyte/pstatic.h>
#include <stdio.h>

#ifdef LIBRARY
int next(void);
pstatic int shown = 6;
int next(void) { return ++shown; }
#else
extern int shown;
int next(void);
int main(void) {
    int said = next();
#ifdef NAMES
    printf("%d %d\n", said, shown);
#else
    printf("%d\n", said);
#endif
    return 0;
}
#endif
