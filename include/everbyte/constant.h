/* EVERBYTE_CONSTANT marks persistent variables in C++: the compiler must know their initial
 * values. A constructor would run at every start of the program and overwrite the values of the
 * last run. Included by pstatic.h and pdata.h. */
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
