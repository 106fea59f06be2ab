/* Bit fields in blocks: lines marked "refused" do not compile under the checker, and without it the
 * compiled code does something else. */
#include "everbyte/patomic.h"
#include <stdio.h>

struct bits {
    unsigned a : 3, b : 5, c : 9;
    unsigned long d : 40;
};
struct box {
    struct bits bits;
    unsigned char behind[8];
};
pstatic struct box box;

__attribute__((noinline)) static void set(struct box *at, unsigned long d, unsigned b) {
    patomic {
        at->bits.d = d; /* refused */
        at->bits.b = b; /* refused */
    }
}

static inline void raise(struct box *at, unsigned long by) {
    at->bits.d += by; /* refused */
}

__attribute__((noinline)) static void add(struct box *at, unsigned long by) {
    patomic { raise(at, by); }
}

EVERBYTE_SAFE int same(const struct box *one, const struct box *other) {
    return one->bits.a == other->bits.a; /* refused */
}

__attribute__((noinline)) static unsigned long local(struct box *at, unsigned long d) {
    unsigned long found;
    patomic {
        struct bits mine = at->bits;
        mine.d = d;     /* refused */
        found = mine.c; /* refused */
        at->bits = mine;
    }
    return found;
}

static void fresh(void) {
    box = (struct box){{3, 0, 6, 0}, {0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa}};
}

static void show(const char *what) {
    unsigned long behind = 0;
    for (int at = 7; at >= 0; at--)
        behind = behind << 8 | box.behind[at];
    printf("%s: a %u, b %u, c %u, d %lu; behind %lx\n", what, box.bits.a, box.bits.b, box.bits.c, (unsigned long)box.bits.d, behind);
}

int main(void) {
    fresh(), set(&box, 5, 2), show("set");
    fresh(), add(&box, 5), add(&box, 5), show("add");
    fresh(), local(&box, 5), show("local");
    return !same(&box, &box);
}
