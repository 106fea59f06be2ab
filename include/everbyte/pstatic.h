/* Variables that keep their values, for C and C++.
 *
 *     pstatic int runs = 0; (at file scope; initialised once, at the first run)
 *     int main(void) { printf("run %d\n", ++runs); }
 *
 * 1. Place. The program's variables lie in an object of the store named after its file,
 *    "pstatic/FILE", which the library opens before main; see mnemosyne.h for the path of the
 *    store. After that object, or the store, is removed, the next run begins with initial
 *    values.
 * 2. Durability. Values settled by flush and fence of mnemosyne.h, or by a transaction, survive
 *    a power cut. A program that ends by exit or by returning from main keeps all other values
 *    too. A killed program keeps them if the store is shared memory or persistent memory; if it
 *    is a file on a disk, only the flushed values.
 * 3. Rebuilding. A rebuilt program keeps its variables if each has the same name, place and
 *    size. The library reads these from the symbols: do not strip the program. A program whose
 *    variables differ ends before main with a message and status 78, and the variables stay
 *    unchanged.
 * 4. Initial values. A position-independent program lies at another address in each run, so the
 *    initial value of a variable must not be the address of anything in the program; such a
 *    program is refused. Pointers into the store are valid in every run. Types are plain data: a
 *    C++ constructor would run at every start, so the compiler refuses an initial value that is
 *    no constant.
 * 5. Refused variables. Thread-local variables (__thread) and, in C++, inline variables and
 *    static members of templates cannot be pstatic: the compiler reports "section type
 *    conflict", or the assembler objects.
 * 6. Libraries. A shared library may have such variables for its own functions. An executable
 *    that names one of them is compiled with -fPIC: otherwise the linker copies the variable,
 *    and the program is refused. */
#ifndef EVERBYTE_PSTATIC_H
#define EVERBYTE_PSTATIC_H

#include "constant.h"

#define pstatic EVERBYTE_CONSTANT __attribute__((section("persistent"), used))

/* Aligns each file's part of the section to whole pages, so that pages of the store can be
 * mapped over them. */
__asm__(".pushsection persistent,\"aw\"\n.subsection 1\n.balign 4096\n.popsection");

#ifdef __cplusplus
extern "C" {
#endif

extern char __start_persistent[] __attribute__((weak, visibility("hidden")));
extern char __stop_persistent[] __attribute__((weak, visibility("hidden")));

/* Opens the variables at `start .. end`, or ends the program with a message. A second call does
 * nothing. */
void everbyte_open_pstatic(void *start, void *end);

__attribute__((constructor(101))) static void everbyte_open_pstatic_here(void) {
    everbyte_open_pstatic(__start_persistent, __stop_persistent);
}

#ifdef __cplusplus
}
#endif
#endif
