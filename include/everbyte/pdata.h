/* HEAPO's persistent variables, for C and C++: variables that live as long as the executable
 * file that contains them.
 *
 *     PDATA int runs = 0; (at file scope; initialised once, at the file's first run)
 *
 * 1. Each executable file has variables of its own, identified by device, inode and build: a
 *    copy of the file begins with initial values, and so does a rebuilt program.
 * 2. The variables follow the file when it is renamed within its directory. After a move to
 *    another directory the file must run there before other programs with PDATA run. When a
 *    program with PDATA starts, the variables of files that no longer exist are deleted.
 * 3. Blocks of patomic.h change PDATA only in a program that has no pstatic; in another program
 *    a block that stores to PDATA ends the process.
 * 4. Otherwise the rules of pstatic.h apply: places, durability, and refused variables. */
#ifndef EVERBYTE_PDATA_H
#define EVERBYTE_PDATA_H

#include "constant.h"

#define PDATA EVERBYTE_CONSTANT __attribute__((section("PDATA"), used))

/* Aligns each file's part of the section to whole pages, so that pages of the store can be
 * mapped over them. */
__asm__(".pushsection PDATA,\"aw\"\n.subsection 1\n.balign 4096\n.popsection");

#ifdef __cplusplus
extern "C" {
#endif

extern char __start_PDATA[] __attribute__((weak, visibility("hidden")));
extern char __stop_PDATA[] __attribute__((weak, visibility("hidden")));

/* Opens the variables at `start .. end`, or ends the program with a message. A second call does
 * nothing. */
void everbyte_open_pdata(void *start, void *end);

__attribute__((constructor(101))) static void everbyte_open_pdata_here(void) {
    everbyte_open_pdata(__start_PDATA, __stop_PDATA);
}

#ifdef __cplusplus
}
#endif
#endif
