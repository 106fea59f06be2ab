/* Assertions of the test programs about each call. */
#include <errno.h>
#include <everbyte/heapo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(int good, const char *what, int line) {
    if (good) return;
    fprintf(stderr, "line %d: %s; errno %d (%s); %s\n", line, what, errno, strerror(errno), everbyte_error());
    exit(1);
}
#define MUST(what) require(!!(what), #what, __LINE__)
/* The call fails with this errno, and sets a sentence. */
#define FAILS(what, number) (errno = 0, require(!(what) && errno == (number) && *everbyte_error(), #what, __LINE__))
