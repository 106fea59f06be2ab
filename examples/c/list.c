/* A list that outlives its process: each run adds a number in front and prints them all.
 *
 *     cc list.c -leverbyte -o list && ./list && ./list && ./list */
#include <errno.h>
#include <everbyte/heapo.h>
#include <stdio.h>

struct node {
    int value;
    struct node *next;
};

int main(void) {
    if (!heapo_create("list") && !(errno == EEXIST && heapo_map("list"))) {
        fprintf(stderr, "list: %s\n", everbyte_error());
        return 1;
    }
    struct node *first = heapo_get_prime_node("list");
    heapo_tx_begin("list");
    struct node *node = heapo_malloc("list", sizeof *node);
    if (!node) {
        fprintf(stderr, "list: %s\n", everbyte_error());
        return 1;
    }
    node->value = first ? first->value + 1 : 1;
    node->next = first;
    heapo_set_prime_node("list", node);
    if (!heapo_tx_end("list")) {
        fprintf(stderr, "list: %s\n", everbyte_error());
        return 1;
    }
    for (; node; node = node->next)
        printf("%d%s", node->value, node->next ? " " : "\n");
    return 0;
}
