/* Durable transactions for C and C++: a block of ordinary code that happens whole or not at all,
 * alone among threads.
 *
 *     pstatic long balance[2];
 *     patomic {
 *         balance[0] -= 10;
 *         balance[1] += 10;
 *     }                                 (settled: it survives whatever happens now)
 *
 * Compile with GCC 12 and the words of `pkg-config --cflags --libs everbyte-patomic`, GCC 13 to 15
 * with those of everbyte-patomic-13: GCC compiles such blocks wrongly without these flags, so this
 * header refuses to be compiled.
 *
 * No bit fields in a block, nor in what it calls: GCC compiles them wrongly there, and stores to
 * their neighbours. Where `make install` found the headers of GCC's plugins, the words of
 * pkg-config load a checker that refuses them, and copies of structs that GCC has divided into bit
 * fields; elsewhere the program has to see to it. Structs with bit fields are copied whole.
 *
 * What happens. Persistent variables (pstatic.h) and blocks from pmalloc are changed when the block
 * ends, together, and settled then. Other memory is changed too, and put back if the block is run
 * again or cancelled, as are locals. Blocks of several threads happen one after the other, in some
 * order; one that meets another is run again. Inside another, a block is part of it. What the
 * blocks of a program change belongs to the program: its variables and what pmalloc gave for them.
 * They may read other persistent memory; one that stores to it ends the process with a sentence,
 * and nothing of it has happened: objects, regions, variables of a library, PDATA in a program that
 * has pstatic. A program without variables lends its blocks to the PDATA it has, or to the library
 * with variables that was loaded last.
 *
 * What may be in a block: expressions, control flow (return and break too, which commit), functions
 * in sight or declared EVERBYTE_SAFE, pmalloc and pfree, malloc and free, memcpy and its kin, new
 * and delete, exceptions. An exception that leaves it commits it. Inside, catch by `catch (...)`: a
 * typed catch crashes the compiler, and so does va_arg, which the checker refuses. What may not is
 * an error of the compiler's: I/O, volatile, atomics, assembly, unknown functions; a block that
 * becomes irrevocable all the same ends the process with a sentence.
 *
 * A block that needs more log than there is goes through the heap; one that finds no room there, or
 * stores to more than a million lines of 64 bytes that it has not allocated, ends the process with
 * a sentence, and has done nothing. Memory that a block makes private, or frees, is nobody else's
 * when it ends.
 *
 * EVERBYTE_TRUNCATION (sync, async) says whether a block's end also brings what it stored to its
 * place, or a thread does that later, which takes one fence where the other takes three. While a
 * thread does it, a program that stores to the same words outside of blocks calls
 * everbyte_patomic_truncate first.
 * A block ends by its end. The compiler keeps longjmp out of it; a handler that jumps out of a
 * fault inside ends the process at the next block. A thread that ends inside (pthread_exit,
 * cancellation) leaves nothing of the block. A child of fork runs no blocks: its first one, or the
 * rest of the one that it was made in, ends it with a sentence. A function with a block does not
 * call setjmp: the compiler crashes. THREADS: any; not from signal handlers. A handler's block that
 * finds the thread in a step of another ends the process; one that comes between two steps is part
 * of that block, and is taken back if that is run again. */
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

/* A block, `patomic { ... }`; and a statement inside one that takes back what the innermost has
 * done, and leaves it. */
#define patomic __transaction_atomic
#define patomic_cancel __transaction_cancel
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Chooses the mode that EVERBYTE_TRUNCATION names, from now on. */
void everbyte_patomic_asynchronous(int asynchronous);

/* Brings what blocks have stored to its place: nothing is stored again by a recovery. */
void everbyte_patomic_truncate(void);

/* A program linked to another library of transactions would not have this. */
extern const int everbyte_patomic;
static const int *const everbyte_patomic_linked __attribute__((used)) = &everbyte_patomic;

#ifdef __cplusplus
}
#endif
#endif
