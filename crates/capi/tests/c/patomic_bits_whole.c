/* Structs with bit fields that blocks leave whole, and bit fields outside of blocks. Words: DIVIDED
 * adds a copy that GCC divides when it optimises, VARIADIC a function that it crashes on. */
#include "everbyte/patomic.h"
#include "require.h"

struct bits {
    unsigned a : 3, b : 5, c : 9;
    unsigned long d : 40;
    unsigned whole : 32;
};
struct box {
    struct bits bits;
    unsigned char behind[8];
};
pstatic struct box one, other;

__attribute__((noinline)) static void swap(struct box *left, struct box *right) {
    patomic {
        struct bits bits = left->bits;
        left->bits = right->bits;
        right->bits = bits;
        left->bits.whole++; /* a word like any other */
    }
}

#ifdef DIVIDED
void divided(struct box *into, unsigned long d) {
    struct bits bits = {1, 2, 3, 4, 5};
    if (d > 3) bits.d = d;
    patomic { into->bits = bits; }
}
#endif

#ifdef VARIADIC
#include <stdarg.h>
EVERBYTE_SAFE int variadic(int count, ...) {
    va_list list;
    va_start(list, count);
    int first = va_arg(list, int);
    va_end(list);
    return first;
}
#endif

int main(void) {
    one.bits = (struct bits){1, 2, 3, 4, 5};
    other.bits = (struct bits){7, 6, 5, 4, 3};
    swap(&one, &other);
    MUST(one.bits.a == 7 && one.bits.b == 6 && one.bits.c == 5 && one.bits.d == 4 && one.bits.whole == 4);
    MUST(other.bits.a == 1 && other.bits.b == 2 && other.bits.c == 3 && other.bits.d == 4 && other.bits.whole == 5);
    MUST(one.behind[0] == 0 && other.behind[0] == 0);
    return 0;
}
