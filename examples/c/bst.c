/* A search tree that outlives its process: each run adds the numbers it is given and prints them
 * all in order.
 *
 *     cc bst.c -leverbyte -o bst && ./bst 5 2 8 && ./bst 1
 *
 * No transaction is needed. A node is made in the shadow of its parent, which is not read before
 * the parent's flag says that it is whole; a crash leaves the flag or not. An unfinished node is
 * found and freed when the program starts again. */
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

/* Places that wait for a walk to come back to them. A tree of sorted numbers is as deep as it is
 * large, so they do not wait on the stack. */
static struct child **waiting;
static size_t waits, room;

static void wait(struct child *place) {
    if (waits == room && !(waiting = realloc(waiting, (room = 2 * room + 64) * sizeof *waiting))) {
        perror("bst");
        exit(1);
    }
    waiting[waits++] = place;
}

/* Frees what an insertion had begun. */
static void recover(void) {
    wait(&root);
    while (waits) {
        struct child *place = waiting[--waits];
        if (place->whole) {
            wait(&place->node->left);
            wait(&place->node->right);
        } else if (!pfree(&place->node)) {
            fail("damaged");
        }
    }
}

static void print(void) {
    struct child *place = &root;
    while (place->whole || waits) {
        for (; place->whole; place = &place->node->left) wait(place);
        place = waiting[--waits];
        printf("%llu\n", (unsigned long long)place->node->key);
        place = &place->node->right;
    }
}

int main(int count, char **words) {
    recover();
    for (int word = 1; word < count; word++) {
        insert(strtoull(words[word], NULL, 10));
        fprintf(stderr, "added %s\n", words[word]);
    }
    print();
    return 0;
}
