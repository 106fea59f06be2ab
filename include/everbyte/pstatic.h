/* Variables that keep their values, for C and C++.
 *
 *     pstatic int runs = 0; (at file scope; initialised once, at the first run)
 *     int main(void) { printf("run %d\n", ++runs); }
 *
 * The program's variables lie in an object of the store named after its file, "pstatic/FILE", which
 * the library opens before main; see mnemosyne.h for where the store is. Remove that object, or the
 * store, and the next run begins with initial values.
 *
 * What survives. What mnemosyne.h's flush and fence, or a transaction, settled, survives a power
 * cut. A program that ends by exit or by returning from main keeps the rest too. One that is killed
 * keeps it where the store is shared memory or persistent memory; where it is a file on a disk,
 * only what was flushed.
 *
 * A program that was built anew keeps its variables if each has the name, place and size it had,
 * which its symbols tell: do not strip it. If not, it ends before main with a sentence and status
 * 78, and the variables stay as they are.
 *
 * A position-independent program lies elsewhere in each run, so a variable must not begin as the
 * address of anything in the program; such a program is refused too. Pointers into the store are
 * good in every program. Types are plain data: a C++ constructor would run at every start, so the
 * compiler refuses what does not begin as a constant. Variables of threads (__thread) and, in C++,
 * inline variables and static members of templates cannot be pstatic: the compiler says "section
 * type conflict", or the assembler objects. Shared libraries may have such variables, for their
 * functions' use. An executable that names one itself is compiled with -fPIC: otherwise the linker
 * gives it a copy, and the program is refused. */
#ifndef EVERBYTE_PSTATIC_H
#define EVERBYTE_PSTATIC_H

#include "constant.h"

#define pstatic EVERBYTE_CONSTANT __attribute__((section("persistent"), used))

/* Each file's part of the section is whole pages, so that the store's pages can be mapped over
 * them. */
__asm__(".pushsection persistent,\"aw\"\n.subsection 1\n.balign 4096\n.popsection");

#ifdef __cplusplus
extern "C" {
#endif

extern char __start_persistent[] __attribute__((weak, visibility("hidden")));
extern char __stop_persistent[] __attribute__((weak, visibility("hidden")));

/* Opens the variables at `start .. end`; ends the program with a sentence if that cannot be. Doing
 * it again does nothing. */
void everbyte_open_pstatic(void *start, void *end);

__attribute__((constructor(101))) static void everbyte_open_pstatic_here(void) {
    everbyte_open_pstatic(__start_persistent, __stop_persistent);
}

#ifdef __cplusplus
}
#endif
#endif
