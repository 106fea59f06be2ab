/* A search tree that outlives its process: each run adds the numbers it is given and prints them all in order.
 *
 *     cc bst.c -leverbyte -o bst && ./bst 5 2 8 && ./bst 1
 *
 * No transaction is needed. A node is made in the shadow of its parent, where nobody looks before the parent's flag says that
 * it is whole; a crash leaves the flag or not. What was not finished is found and freed when the program starts again. */
#include <everbyte/mnemosyne.h>
#include <stdio.h>
#include <stdlib.h>

struct child {
    struct node *node;
    uint64_t whole;
};

struct node {
    uint64_t key;
    struct child left, right;
};

pstatic struct child root;

static void fail(const char *what) {
    fprintf(stderr, "bst: %s: %s\n", what, everbyte_error());
    exit(1);
}

static void insert(uint64_t key) {
    struct child *place = &root;
    while (place->whole) {
        if (key == place->node->key) return;
        place = key < place->node->key ? &place->node->left : &place->node->right;
    }
    const struct node node = {.key = key};
    if (!pmalloc(sizeof node, &place->node)) fail("no room");
    mnemosyne_wtcopy(place->node, &node, sizeof node);
    mnemosyne_order(); /* the node before the flag */
    mnemosyne_wtstore(&place->whole, 1);
    if (!mnemosyne_fence()) fail("lost");
}

/* Frees what an insertion had begun. */
static void recover(struct child *place) {
    if (!place->whole) {
        if (!pfree(&place->node)) fail("damaged");
        return;
    }
    recover(&place->node->left);
    recover(&place->node->right);
}

static void print(const struct child *place) {
    if (!place->whole) return;
    print(&place->node->left);
    printf("%llu\n", (unsigned long long)place->node->key);
    print(&place->node->right);
}

int main(int count, char **words) {
    recover(&root);
    for (int word = 1; word < count; word++) {
        insert(strtoull(words[word], NULL, 10));
        fprintf(stderr, "added %s\n", words[word]);
    }
    print(&root);
    return 0;
}
