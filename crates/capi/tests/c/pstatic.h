/* Declarations shared by the files of the test program pstatic. */
#include <everbyte/mnemosyne.h>

#ifdef __cplusplus
extern "C" {
#endif
extern struct pair {
    int first;
    double second;
} pairs[1000];
int *inside(void);
#ifdef __cplusplus
}
#endif
