/* A shop: each run sells some apples, an order and the stock in one step, and lists the orders.
 *
 *     cc stock.c -leverbyte -o stock && ./stock 3 && ./stock 5 */
#include <errno.h>
#include <everbyte/kv.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, everbyte_error());
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: stock APPLES\n"), 2;
    eb_kv shop = eb_kv_open("shop", EB_KV_CREATE);
    eb_kv_table orders = eb_kv_table_open(shop, "orders", EB_KV_CREATE);
    if (!shop || !orders) return failed("shop");
    uint64_t count;
    if (!eb_kv_count(orders, &count)) return failed("orders");

    eb_kv_batch batch = eb_kv_begin(shop);
    char text[32] = "100", key[32];
    size_t len = 3;
    if (!eb_kv_batch_get(batch, 0, "apples", 6, text, sizeof text - 1, &len) && errno != ENOENT) return failed("apples");
    text[len < sizeof text ? len : sizeof text - 1] = 0;
    int left = atoi(text) - atoi(argv[1]);
    if (left < 0) return eb_kv_close(batch), fprintf(stderr, "only %s apples are left\n", text), 1;
    int key_len = snprintf(key, sizeof key, "order %03u", (unsigned)count + 1);
    int text_len = snprintf(text, sizeof text, "%d apples", atoi(argv[1]));
    if (!eb_kv_batch_put(batch, orders, key, key_len, text, text_len)) return failed(key);
    text_len = snprintf(text, sizeof text, "%d", left);
    if (!eb_kv_batch_put(batch, 0, "apples", 6, text, text_len)) return failed("apples");
    if (!eb_kv_commit(batch)) return failed("the sale"); /* both survive a power cut, or neither */

    eb_kv_cursor cursor = eb_kv_range(orders, NULL, 0, NULL, 0);
    const void *order, *amount;
    size_t order_len, amount_len;
    while (eb_kv_next(cursor, &order, &order_len, &amount, &amount_len))
        printf("%.*s: %.*s\n", (int)order_len, (const char *)order, (int)amount_len, (const char *)amount);
    printf("%d apples are left\n", left);
    return errno ? failed("orders") : 0;
}
