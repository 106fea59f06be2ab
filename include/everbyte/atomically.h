/* Durable transactions without support by the compiler: the transactions of patomic.h for clang
 * and every other compiler of C and C++.
 *
 *     pstatic long balance[2];
 *
 *     static int transfer(void *amount) {
 *         TXW(&balance[0], TXR(&balance[0]) - *(long *)amount);
 *         TXW(&balance[1], TXR(&balance[1]) + *(long *)amount);
 *         return 1;                     (0: undo everything)
 *     }
 *
 *     everbyte_atomically(transfer, &amount);
 *
 * 1. A body is a function. It loads persistent memory, and memory that other threads may change,
 *    by TXR, and stores to them by TXW. It allocates by TXALLOCATE and frees by TXFREE. It may
 *    be run again from its start, so apart from these calls it changes its own locals only.
 * 2. A body ends by returning, not by longjmp or a C++ exception: the next transaction ends the
 *    process if an earlier body was left otherwise. A thread that ends inside (pthread_exit,
 *    cancellation) leaves no effect of the body.
 * 3. Otherwise the rules of patomic.h apply. One program may use both kinds of transactions.
 * 4. THREADS: any; not from signal handlers (see patomic.h). */
#ifndef EVERBYTE_ATOMICALLY_H
#define EVERBYTE_ATOMICALLY_H

#include "mnemosyne.h"

#if !defined __x86_64__ || !(defined __GNUC__ || defined __clang__)
#error "atomically.h is for x86-64, and for compilers with the extensions of GNU C"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Runs `body` with the argument `with` as one transaction. Returns 1 if it has committed, and is
 * settled; 0 if the body returned 0, and has no effect. Inside another transaction it is part of
 * that one, and is undone alone if its body returns 0.
 * Fails with EPERM in a child of fork. In a child that its own body creates, the next load,
 * store or return of the body fails: 0. */
int everbyte_atomically(int (*body)(void *with), void *with);

/* The calls inside a body; the compiler generates the same calls for patomic.h. */
void everbyte_tx_load(void *to, const void *from, size_t size) __asm__("_ITM_memcpyRtWn");
void everbyte_tx_store(void *to, const void *from, size_t size) __asm__("_ITM_memcpyRnWt");
void *everbyte_tx_allocate(size_t size, void *destination) __asm__("_ZGTt7pmalloc");
int everbyte_tx_free(void *pointer) __asm__("_ZGTt5pfree");

#ifdef __cplusplus
}
#endif

/* Loads the value at `place`, a pointer to a type without const. */
#define TXR(place) \
    __extension__({ \
        __typeof__(*(place)) everbyte_value; \
        everbyte_tx_load(&everbyte_value, (place), sizeof *(place)); \
        everbyte_value; \
    })

/* Stores a value at `place`, a pointer. */
#define TXW(place, value) \
    __extension__({ \
        __typeof__(*(place)) everbyte_value = (value); \
        everbyte_tx_store((place), &everbyte_value, sizeof everbyte_value); \
    })

/* pmalloc and pfree inside a body, with the contract of mnemosyne.h for `destination` and
 * `pointer`. */
#define TXALLOCATE(size, destination) everbyte_tx_allocate((size), (destination))
#define TXFREE(pointer) everbyte_tx_free(pointer)

#endif
