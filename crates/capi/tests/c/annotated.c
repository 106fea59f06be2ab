/* Pointers to persistent memory and others, told apart; or mixed, where MIX asks for it. */
#include <everbyte/mnemosyne.h>

struct node {
    int value;
    struct node persistent *next;
};

static pstatic struct node persistent *first;

static int add(int value) {
    struct node persistent *node = pmalloc(sizeof *node, &first);
    if (!node) return 0;
    node->value = value;
    node->next = first;
#if defined(MIX) && MIX == 1
    struct node here = {value, first};
    first = &here; /* gone with the function */
#elif defined(MIX)
    struct node *plain = node; /* its receiver cannot see that it needs a flush */
    plain->value++;
#endif
    return mnemosyne_flush(node, sizeof *node) && mnemosyne_fence();
}

int main(void) {
    return add(1) && pfree(&first) ? 0 : 1;
}
