/* Variables that live as long as the executable file they are in, for C and C++: HEAPO's persistent
 * variables.
 *
 *     PDATA int runs = 0; (at file scope; initialised once, at the file's first run)
 *
 * Each executable file has its own, known by device, inode and build: a copy of the file begins
 * with initial values, and so does a program that was built anew. They follow the file when it gets
 * another name in its directory; moved elsewhere, it is to be run there before other such programs
 * are. What belongs to a file that is gone is given up when the next program with such variables
 * starts.
 *
 * Blocks of patomic.h change PDATA only in a program that has no pstatic; elsewhere one that stores
 * to PDATA ends the process. Otherwise all is as pstatic.h says: where they lie, what survives,
 * what cannot be kept. */
#ifndef EVERBYTE_PDATA_H
#define EVERBYTE_PDATA_H

#include "constant.h"

#define PDATA EVERBYTE_CONSTANT __attribute__((section("PDATA"), used))

/* Each file's part of the section is whole pages, so that the store's pages can be mapped over
 * them. */
__asm__(".pushsection PDATA,\"aw\"\n.subsection 1\n.balign 4096\n.popsection");

#ifdef __cplusplus
extern "C" {
#endif

extern char __start_PDATA[] __attribute__((weak, visibility("hidden")));
extern char __stop_PDATA[] __attribute__((weak, visibility("hidden")));

/* Opens the variables at `start .. end`; ends the program with a sentence if that cannot be. Doing
 * it again does nothing. */
void everbyte_open_pdata(void *start, void *end);

__attribute__((constructor(101))) static void everbyte_open_pdata_here(void) {
    everbyte_open_pdata(__start_PDATA, __stop_PDATA);
}

#ifdef __cplusplus
}
#endif
#endif
