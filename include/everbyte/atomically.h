/* Durable transactions without the compiler's help: what patomic.h gives GCC, for clang and every
 * other compiler of C and C++.
 *
 *     pstatic long balance[2];
 *
 *     static int transfer(void *amount) {
 *         TXW(&balance[0], TXR(&balance[0]) - *(long *)amount);
 *         TXW(&balance[1], TXR(&balance[1]) + *(long *)amount);
 *         return 1;                     (0: take everything back)
 *     }
 *
 *     everbyte_atomically(transfer, &amount);
 *
 * A body is a function. It loads what other threads may change by TXR and stores it by TXW, and
 * persistent memory so too; it may be run again, from its start, so it changes nothing else but its
 * own variables. The rest is as in patomic.h, whose blocks may be transactions of the same program.
 * It allocates by TXALLOCATE and frees by TXFREE.
 *
 * A body returns: it is left neither by longjmp nor by an exception of C++; the next transaction
 * ends the process if it finds that one was. A thread that ends inside (pthread_exit, cancellation)
 * leaves nothing of it. THREADS: any; not from signal handlers (see patomic.h). */
#ifndef EVERBYTE_ATOMICALLY_H
#define EVERBYTE_ATOMICALLY_H

#include "mnemosyne.h"

#if !defined __x86_64__ || !(defined __GNUC__ || defined __clang__)
#error "atomically.h is for x86-64, and for compilers with the extensions of GNU C"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Runs `body`, which may be called with `with`, as one transaction. 1: it has happened, and is
 * settled. 0: the body answered 0, and nothing has happened. Inside another it is part of that, and
 * taken back alone if its body answers 0. Fails in a child of fork with EPERM, and in a child that
 * its body makes when that next loads, stores or returns: 0. */
int everbyte_atomically(int (*body)(void *with), void *with);

/* Inside a body. What patomic.h's compiler calls for the same. */
void everbyte_tx_load(void *to, const void *from, size_t size) __asm__("_ITM_memcpyRtWn");
void everbyte_tx_store(void *to, const void *from, size_t size) __asm__("_ITM_memcpyRnWt");
void *everbyte_tx_allocate(size_t size, void *destination) __asm__("_ZGTt7pmalloc");
int everbyte_tx_free(void *pointer) __asm__("_ZGTt5pfree");

#ifdef __cplusplus
}
#endif

/* The value at `place`, a pointer to what is not const. */
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

/* pmalloc and pfree (mnemosyne.h) inside a body; of `destination` and `pointer` they speak as those
 * do. */
#define TXALLOCATE(size, destination) everbyte_tx_allocate((size), (destination))
#define TXFREE(pointer) everbyte_tx_free(pointer)

#endif
