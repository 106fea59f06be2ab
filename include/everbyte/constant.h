/* EVERBYTE_CONSTANT, of persistent variables in C++: what one begins as is known to the compiler. A
 * constructor would run at every start of the program, and undo what the last run has left.
 * Included by pstatic.h and pdata.h. */
#ifndef EVERBYTE_CONSTANT_H
#define EVERBYTE_CONSTANT_H

#if defined __cplusplus && defined __clang__
#define EVERBYTE_CONSTANT __attribute__((require_constant_initialization))
#elif defined __cplusplus && __GNUC__ >= 10
#define EVERBYTE_CONSTANT __constinit
#else
#define EVERBYTE_CONSTANT
#endif

#endif
