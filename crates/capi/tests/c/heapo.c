/* The contract of heapo.h, tried call by call. Usage: heapo PART; exits with 0 if the header is
 * right. */
#include "require.h"
#include <stdint.h>

struct node {
    uint64_t value;
    struct node *next;
};

static int count(const char *name, void *context) {
    (void)name;
    ++*(int *)context;
    return 1;
}

static int remember(const char *name, void *context) {
    strcpy(context, name);
    return 0;
}

static void objects(void) {
    char longest[129], too_long[130], first[129];
    memset(longest, 'x', 128), longest[128] = 0;
    memset(too_long, 'x', 129), too_long[129] = 0;
    MUST(heapo_create("one") && heapo_create(longest) && heapo_create("dir/two"));
    FAILS(heapo_create("one"), EEXIST);
    FAILS(heapo_create(too_long), EINVAL);
    FAILS(heapo_create(""), EINVAL);
    FAILS(heapo_create("/a"), EINVAL);
    FAILS(heapo_create("a\nb"), EINVAL);
    FAILS(heapo_create("\xff\xfe"), EINVAL);
    FAILS(heapo_create(NULL), EINVAL);
    FAILS(heapo_map("absent"), ENOENT);
    FAILS(heapo_malloc("absent", 8), ENOENT);
    int names = 0;
    MUST(heapo_list(NULL, count, &names) && names == 3);
    names = 0;
    MUST(heapo_list("dir/", count, &names) && names == 1);
    MUST(heapo_list(NULL, remember, first) && !strcmp(first, "dir/two"));
    FAILS(heapo_list(NULL, NULL, NULL), EINVAL);
    MUST(heapo_chmod("dir/two", 0640) && heapo_chmod("dir/two", 0600));
    MUST(heapo_chown("dir/two", (unsigned)-1, (unsigned)-1));
    FAILS(heapo_chmod("dir/two", 0777), EINVAL);
    FAILS(heapo_chmod("none", 0600), ENOENT);
    FAILS(heapo_chown("none", 0, 0), ENOENT);
    MUST(heapo_is_mapped("one") && heapo_unmap("one") && !heapo_is_mapped("one"));
    FAILS(heapo_unmap("one"), ENOENT);
    FAILS(heapo_malloc("one", 8), ENOENT);
    MUST(heapo_map("one") && heapo_map("one"));
    MUST(heapo_tx_begin("one"));
    FAILS(heapo_unmap("one"), EBUSY);
    FAILS(heapo_delete("one"), EBUSY);
    MUST(heapo_tx_end("one") && heapo_delete("one"));
    FAILS(heapo_map("one"), ENOENT);
    MUST(heapo_create("one") && heapo_get_prime_node("one") == NULL);
    FAILS(heapo_open("another.store"), EBUSY);
}

static void chunks(void) {
    MUST(heapo_create("a") && heapo_create("b"));
    char *chunks[200];
    for (size_t i = 0; i < 200; i++) {
        size_t size = i * i * 7;
        MUST(chunks[i] = heapo_malloc("a", size));
        MUST((uintptr_t)chunks[i] % 16 == 0);
        memset(chunks[i], (int)i, size);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t at = 0; at < i * i * 7; at++) MUST(chunks[i][at] == (char)i);
    FAILS(heapo_free("b", chunks[5]), EINVAL);      /* another object's */
    FAILS(heapo_free("a", chunks[5] + 16), EINVAL); /* inside */
    FAILS(heapo_free("a", &chunks), EINVAL);        /* not in the store */
    FAILS(heapo_free("a", (void *)16), EINVAL);
    FAILS(heapo_free("a", (void *)UINTPTR_MAX), EINVAL);
    MUST(heapo_free("a", chunks[5]) && heapo_free("a", NULL));
    FAILS(heapo_free("a", chunks[5]), EINVAL); /* twice */
    FAILS(heapo_realloc("a", chunks[5], 64), EINVAL);
    FAILS(heapo_calloc("a", SIZE_MAX / 2, 3), ENOMEM);
    FAILS(heapo_malloc("a", SIZE_MAX), ENOMEM);
    FAILS(heapo_malloc("a", (size_t)1 << 40), ENOMEM);
    char *zeros = heapo_calloc("a", 100, 100);
    MUST(zeros);
    for (int at = 0; at < 10000; at++) MUST(zeros[at] == 0);
    memset(zeros, 7, 10000);
    char *grown = heapo_realloc("a", zeros, 1 << 20);
    MUST(grown && grown[0] == 7 && grown[9999] == 7);
    FAILS(heapo_free("a", zeros), EINVAL); /* it has moved */
    char *shrunk = heapo_realloc("a", grown, 100);
    MUST(shrunk && shrunk[99] == 7 && heapo_realloc("a", shrunk, 101) == shrunk);
    FAILS(heapo_set_prime_node("a", &zeros), EINVAL);
    FAILS(heapo_set_prime_node("a", heapo_malloc("b", 8)), EINVAL);
    FAILS(heapo_persist(&zeros, 8), EINVAL);
    FAILS(heapo_flush((void *)UINTPTR_MAX, SIZE_MAX), EINVAL);
    /* A full object refuses, keeps its chunks, and allocates again after a free. */
    MUST(heapo_create("full"));
    char *last = NULL, *next;
    while ((next = heapo_malloc("full", 1 << 20))) *(char **)next = last, last = next;
    MUST(errno == ENOSPC && last);
    /* A larger object holds a chunk that does not fit there; no object exceeds the addresses of the
     * store. */
    FAILS(heapo_malloc("full", 64 << 20), ENOSPC);
    char *most;
    MUST(heapo_create_sized("large", 256 << 20) && (most = heapo_malloc("large", 200 << 20)));
    most[0] = most[(200 << 20) - 1] = 1;
    MUST(heapo_free("large", most));
    MUST(heapo_create_sized("small", 1) && heapo_malloc("small", 1000));
    FAILS(heapo_malloc("small", 2 << 20), ENOMEM);
    FAILS(heapo_create_sized("none", (size_t)1 << 40), ENOSPC);
    FAILS(heapo_create_sized("none", SIZE_MAX), ENOSPC);
    next = *(char **)last;
    MUST(heapo_free("full", last) && heapo_malloc("full", 1 << 20));
    for (last = next; last; last = next) next = *(char **)last, MUST(heapo_free("full", last));
}

static void transactions(void) {
    MUST(heapo_create("t") && heapo_create("u"));
    FAILS(heapo_tx_append("t", "x", 1), EINVAL);
    FAILS(heapo_tx_end("t"), EINVAL);
    FAILS(heapo_tx_abort("t"), EINVAL);
    struct node *node = heapo_calloc("t", 1, sizeof *node);
    FAILS(heapo_tx_append("t", node, sizeof *node), EINVAL); /* none has begun */
    MUST(heapo_set_prime_node("t", node));

    MUST(heapo_tx_begin("t") && heapo_tx_append("t", node, sizeof *node));
    node->value = 1, node->next = node;
    struct node *lost = heapo_malloc("t", sizeof *lost);
    MUST(lost && heapo_set_prime_node("t", lost) && heapo_free("t", node));
    FAILS(heapo_free("t", node), EINVAL); /* twice */
    FAILS(heapo_tx_append("t", &node, 8), EINVAL);
    FAILS(heapo_tx_append("t", node, SIZE_MAX), EINVAL);
    FAILS(heapo_tx_append("t", node, sizeof *node + 64), EINVAL); /* beyond its end */
    FAILS(heapo_tx_append("t", (char *)node - 4096, 8), EINVAL);  /* in no chunk */
    MUST(heapo_tx_append("t", (char *)lost + 8, 8) && heapo_tx_append("t", &node->next, 0));
    MUST(heapo_tx_abort("t"));
    MUST(node->value == 0 && node->next == NULL && heapo_get_prime_node("t") == node);
    FAILS(heapo_free("t", lost), EINVAL);

    /* Two objects have transactions of their own; a thread's second on one object is part of its
     * first. */
    MUST(heapo_tx_begin("t") && heapo_tx_begin("u") && heapo_tx_begin("t"));
    MUST(heapo_tx_append("t", &node->value, 8));
    node->value = 2;
    MUST(heapo_tx_end("t") && heapo_tx_abort("u") && heapo_tx_end("t") && node->value == 2);

    MUST(heapo_tx_begin("t") && heapo_tx_append("t", &node->value, 8));
    node->value = 3;
    MUST(heapo_tx_begin("t") && heapo_tx_abort("t"));
    FAILS(heapo_tx_end("t"), ECANCELED);
    MUST(node->value == 2);

    /* Larger than its log. */
    size_t large = 8 << 20;
    char *bytes = heapo_calloc("t", 1, large);
    MUST(bytes && heapo_tx_begin("t") && heapo_tx_append("t", bytes, large));
    FAILS(heapo_tx_append("t", bytes + 8, large), EINVAL); /* a word too many */
    MUST(heapo_tx_append("t", bytes + large - 8, 8));
    memset(bytes, 1, large);
    MUST(heapo_tx_abort("t") && bytes[0] == 0 && bytes[large - 1] == 0);
    /* A chunk of the transaction's own grows, shrinks and goes. */
    MUST(heapo_tx_begin("t") && (bytes = heapo_malloc("t", 10)));
    memset(bytes, 9, 10);
    MUST((bytes = heapo_realloc("t", bytes, 5000)) && bytes[9] == 9 && heapo_free("t", bytes) && heapo_tx_end("t"));
    FAILS(heapo_free("t", bytes), EINVAL);
}

/* Adds numbers in front of a list until it is killed; prints each settled number. */
static void fill(void) {
    MUST(heapo_create("list") || heapo_map("list"));
    for (;;) {
        MUST(heapo_tx_begin("list"));
        struct node *first = heapo_get_prime_node("list"), *node = heapo_malloc("list", sizeof *node);
        MUST(node);
        node->value = first ? first->value + 1 : 1;
        node->next = first;
        MUST(heapo_set_prime_node("list", node));
        if (node->value % 3 == 0) { /* and takes the one before away */
            MUST(heapo_tx_append("list", &node->next, 8));
            node->next = first->next;
            MUST(heapo_free("list", first));
        }
        MUST(heapo_tx_end("list"));
        printf("%llu\n", (unsigned long long)node->value);
        fflush(stdout);
    }
}

/* Checks the whole list and prints its largest number. */
static void look(void) {
    MUST(heapo_map("list"));
    struct node *first = heapo_get_prime_node("list");
    for (struct node *node = first; node; node = node->next) {
        if (node->value % 3 == 2 && node != first) MUST(0 && "a number that was taken away");
        if (node->next) MUST(node->next->value == node->value - (node->value % 3 == 0 ? 2 : 1));
        else MUST(node->value == 1);
    }
    printf("%llu\n", (unsigned long long)(first ? first->value : 0));
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "objects")) objects();
    else if (!strcmp(part, "chunks")) chunks();
    else if (!strcmp(part, "transactions")) transactions();
    else if (!strcmp(part, "fill")) fill();
    else if (!strcmp(part, "look")) look();
    else if (!strcmp(part, "open")) {
        FAILS(heapo_open(argv[2]), atoi(argv[3]));
        puts(everbyte_error());
    } else return 2;
    return 0;
}
