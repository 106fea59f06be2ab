/* Durable transactions for C and C++: a block of ordinary code that happens whole or not at all,
 * isolated from other threads.
 *
 *     pstatic long balance[2];
 *     patomic {
 *         balance[0] -= 10;
 *         balance[1] += 10;
 *     }                                 (settled: survives a power cut)
 *
 * Conventions:
 *
 * 1. Compiling. Use GCC 12 with the flags of `pkg-config --cflags --libs everbyte-patomic`, GCC
 *    13 to 15 with those of everbyte-patomic-13. Without these flags GCC compiles the blocks
 *    wrongly, so this header refuses to be compiled.
 * 2. Bit fields. A block, and the functions it calls, must not use bit fields: GCC compiles them
 *    wrongly there, and stores to their neighbours. If `make install` found the headers of GCC's
 *    plugins, the flags of pkg-config load a checker that refuses bit fields, and copies of
 *    structs that GCC has divided into bit fields; elsewhere the program must avoid them.
 *    Structs with bit fields are copied whole.
 * 3. Effects. Persistent variables (pstatic.h) and blocks from pmalloc change together when the
 *    block ends, and are settled then. Other memory and locals change at once, and are restored
 *    if the block is run again or cancelled. Blocks of several threads take effect one after the
 *    other, in some order; a block that conflicts with another is run again. A block inside a
 *    block is part of it.
 * 4. Persistent memory. The blocks of a program change the memory of the program: its variables
 *    and the blocks that pmalloc stored to them. They may read other persistent memory. A block
 *    that stores to it (objects, regions, variables of a library, PDATA in a program that has
 *    pstatic) ends the process with a message and has no effect. In a program without variables
 *    the blocks belong to its PDATA, or to the library with variables that was loaded last.
 * 5. Allowed inside: expressions, control flow (return and break too, which commit), functions
 *    that are defined in sight or declared EVERBYTE_SAFE, pmalloc and pfree, malloc and free,
 *    memcpy and its kin, new and delete, exceptions. An exception that leaves a block commits
 *    it. Inside, catch by `catch (...)`: a typed catch crashes the compiler, and so does va_arg,
 *    which the checker refuses. The compiler refuses I/O, volatile, atomics, assembly and
 *    unknown functions. A block that becomes irrevocable nevertheless ends the process with a
 *    message.
 * 6. Limits. A block that needs more log than there is uses the heap. If the heap is full, or if
 *    the block stores to more than a million lines of 64 bytes that it did not allocate, it ends
 *    the process with a message and has no effect. Memory that a block makes private, or frees,
 *    is used by no other block when the block ends.
 * 7. Truncation. EVERBYTE_TRUNCATION=sync: the end of a block also writes its stores to their
 *    places, with three fences. EVERBYTE_TRUNCATION=async: a thread does so later, and the end
 *    takes one fence; a program that stores to the same words outside of blocks must first call
 *    everbyte_patomic_truncate.
 * 8. Leaving a block. The compiler refuses longjmp out of a block; a signal handler that jumps
 *    out of a fault inside a block ends the process at the next block. A thread that ends inside
 *    (pthread_exit, cancellation) leaves no effect of the block. A function with a block must
 *    not call setjmp: the compiler crashes.
 * 9. Fork. A child of fork runs no blocks: its first block, or the rest of the block in which it
 *    was created, ends it with a message.
 * 10. Threads. THREADS: any; not from signal handlers. A handler's block that interrupts the
 *     thread within a step of another block ends the process; one that runs between two steps is
 *     part of that block, and is taken back if that block is run again. */
#ifndef EVERBYTE_PATOMIC_H
#define EVERBYTE_PATOMIC_H

#include "mnemosyne.h"

#ifdef __CHECKER__
#define patomic
#define patomic_cancel ((void)0)
#else

#if !defined EVERBYTE_PATOMIC_FLAGS
#error "patomic needs flags without which GCC compiles it wrongly: add those of `pkg-config --cflags everbyte-patomic`"
#elif defined __clang__
#error "clang has no transactions: patomic is for GCC, everbyte/atomically.h for every compiler"
#elif __GNUC__ >= 13 && EVERBYTE_PATOMIC_FLAGS < 13
#error "GCC 13 and later need more flags for patomic: add those of `pkg-config --cflags everbyte-patomic-13`"
#elif !defined __x86_64__
#error "patomic is for x86-64"
#endif

/* A block, `patomic { ... }`; and a statement inside a block that undoes the innermost block and
 * leaves it. */
#define patomic __transaction_atomic
#define patomic_cancel __transaction_cancel
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Selects asynchronous (1) or synchronous (0) truncation from now on, as EVERBYTE_TRUNCATION
 * does. */
void everbyte_patomic_asynchronous(int asynchronous);

/* Writes the stores of all committed blocks to their places: recovery has nothing to replay
 * then. */
void everbyte_patomic_truncate(void);

/* Fails the link of a program with another library of transactions, which does not define it. */
extern const int everbyte_patomic;
static const int *const everbyte_patomic_linked __attribute__((used)) = &everbyte_patomic;

#ifdef __cplusplus
}
#endif
#endif
