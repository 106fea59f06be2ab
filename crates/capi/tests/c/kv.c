/* The contract of kv.h, tried call by call. Usage: kv PART; exits with 0 if the header is right. */
#include "require.h"
#include <everbyte/kv.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* The value of a key is this text. */
static int is(uint64_t from, const char *key, const char *value) {
    char found[64];
    size_t len = 0;
    return eb_kv_get(from, key, strlen(key), found, sizeof found, &len) && len == strlen(value) &&
           !memcmp(found, value, len);
}

static int put(uint64_t to, const char *key, const char *value) {
    return eb_kv_put(to, key, strlen(key), value, strlen(value));
}

static int join(const char *name, void *context) {
    strcat(strcat(context, name), " ");
    return strcmp(name, "stop");
}

/* The keys that a cursor hands out. */
static const char *walk(eb_kv_cursor cursor, int (*step)(eb_kv_cursor, const void **, size_t *, const void **, size_t *)) {
    static char keys[200];
    const void *key;
    size_t len;
    MUST(cursor);
    keys[0] = 0;
    while (step(cursor, &key, &len, NULL, NULL)) strcat(strncat(keys, key, len), " ");
    MUST(errno == 0);
    MUST(eb_kv_close(cursor));
    return keys;
}

static void calls(void) {
    FAILS(eb_kv_open("cities", 0), ENOENT);
    FAILS(eb_kv_open("cities", EB_KV_EXCL), EINVAL);
    FAILS(eb_kv_open("cities", 8), EINVAL);
    FAILS(eb_kv_open("", EB_KV_CREATE), EINVAL);
    eb_kv kv = eb_kv_open("cities", EB_KV_CREATE);
    MUST(kv);
    FAILS(eb_kv_open("cities", 0), EBUSY);
    FAILS(eb_kv_open("cities", EB_KV_CREATE | EB_KV_EXCL), EEXIST);
    MUST(put(kv, "Oslo", "Norway") && put(kv, "Bergen", "Norway") && put(kv, "Turku", "Finland"));
    MUST(is(kv, "Oslo", "Norway"));
    char two[2];
    size_t len = 0;
    MUST(eb_kv_get(kv, "Oslo", 4, two, 2, &len) && len == 6 && !memcmp(two, "No", 2));
    MUST(eb_kv_get(kv, "Oslo", 4, NULL, 0, NULL));
    FAILS(eb_kv_get(kv, "Rome", 4, NULL, 0, NULL), ENOENT);
    FAILS(eb_kv_delete(kv, "Rome", 4), ENOENT);
    MUST(eb_kv_put(kv, NULL, 0, NULL, 0) && is(kv, "", "") && eb_kv_delete(kv, "", 0));

    FAILS(eb_kv_table_open(kv, "stock", 0), ENOENT);
    eb_kv_table stock = eb_kv_table_open(kv, "stock", EB_KV_CREATE);
    FAILS(eb_kv_table_open(kv, "stock", EB_KV_CREATE | EB_KV_EXCL), EEXIST);
    MUST(put(stock, "apples", "97") && is(stock, "apples", "97"));
    FAILS(eb_kv_get(kv, "apples", 6, NULL, 0, NULL), ENOENT);
    MUST(eb_kv_table_open(kv, "zoo", EB_KV_CREATE));
    char names[100] = "";
    MUST(eb_kv_tables(kv, join, names) && !strcmp(names, "stock zoo "));
    uint64_t count = 0;
    MUST(eb_kv_count(kv, &count) && count == 3);

    MUST(!strcmp(walk(eb_kv_range(kv, NULL, 0, NULL, 0), eb_kv_next), "Bergen Oslo Turku "));
    MUST(!strcmp(walk(eb_kv_range(kv, "C", 1, "Turku", 5), eb_kv_next), "Oslo "));
    MUST(!strcmp(walk(eb_kv_range(kv, NULL, 0, NULL, 0), eb_kv_prev), "Turku Oslo Bergen "));
    MUST(!strcmp(walk(eb_kv_prefix(kv, "Tu", 2), eb_kv_next), "Turku "));

    eb_kv_view view = eb_kv_snapshot(kv);
    eb_kv_view shelf = eb_kv_view_table(view, stock);
    MUST(view && shelf && put(kv, "Oslo", "Denmark") && put(stock, "apples", "96"));
    MUST(is(view, "Oslo", "Norway") && is(kv, "Oslo", "Denmark"));
    MUST(is(shelf, "apples", "97") && eb_kv_count(shelf, &count) && count == 1);
    FAILS(put(view, "Oslo", "Sweden"), EBADF);
    eb_kv_table late = eb_kv_table_open(kv, "late", EB_KV_CREATE);
    FAILS(eb_kv_view_table(view, late), ENOENT);

    MUST(eb_kv_version_name(kv, "monday"));
    FAILS(eb_kv_version_name(kv, "monday"), EEXIST);
    MUST(put(kv, "Oslo", "Norway") && eb_kv_table_drop(kv, "stock"));
    FAILS(eb_kv_get(stock, "apples", 6, NULL, 0, NULL), ENOENT);
    eb_kv_view monday = eb_kv_version_open(kv, "monday");
    MUST(is(monday, "Oslo", "Denmark"));
    names[0] = 0;
    MUST(eb_kv_versions(kv, join, names) && !strcmp(names, "monday "));
    MUST(eb_kv_version_restore(kv, "monday") && is(kv, "Oslo", "Denmark"));
    MUST(is(eb_kv_table_open(kv, "stock", 0), "apples", "96"));
    MUST(eb_kv_version_remove(kv, "monday"));
    FAILS(eb_kv_version_open(kv, "monday"), ENOENT);
    FAILS(eb_kv_version_restore(kv, "monday"), ENOENT);
    FAILS(eb_kv_version_remove(kv, "monday"), ENOENT);
}

/* Ten entries from `next` on, or until the end of a source that is cut short. */
struct source {
    int next, end, step;
    eb_kv_batch batch;
    eb_kv kv;
};

static int numbers(void *context, const void **key, size_t *key_len, const void **value, size_t *value_len) {
    static char text[16];
    struct source *source = context;
    if (source->next == source->end) return 0;
    FAILS(eb_kv_batch_put(source->batch, 0, "a", 1, "b", 1), EBADF);
    FAILS(eb_kv_commit(source->batch), EBADF);
    FAILS(eb_kv_begin(source->kv), EBUSY);
    snprintf(text, sizeof text, "%06d", source->next);
    *key = text, *key_len = 6;
    *value = text + 4, *value_len = 2;
    source->next += source->step;
    return 1;
}

static void loads(void) {
    eb_kv kv = eb_kv_open("loads", EB_KV_CREATE);
    eb_kv_table table = eb_kv_table_open(kv, "t", EB_KV_CREATE);
    eb_kv_batch batch = eb_kv_begin(kv);
    uint64_t count = 7;
    struct source all = {0, 2000, 1, batch, kv}, down = {2000, 1000, -1, batch, kv};
    struct source again = {1999, 2005, 1, batch, kv};
    FAILS(eb_kv_batch_load(batch, 0, NULL, NULL, &count), EFAULT);
    FAILS(eb_kv_batch_load(table, 0, numbers, &all, &count), EBADF);
    MUST(eb_kv_batch_load(batch, 0, numbers, &all, &count) && count == 2000);
    FAILS(eb_kv_batch_load(batch, table, numbers, &down, &count), EINVAL);
    FAILS(eb_kv_batch_load(batch, 0, numbers, &again, NULL), EEXIST);
    again.next = 2000;
    MUST(eb_kv_batch_load(batch, table, numbers, &again, NULL));
    MUST(eb_kv_commit(batch));
    MUST(eb_kv_count(kv, &count) && count == 2000 && is(kv, "001234", "34"));
    MUST(eb_kv_count(table, &count) && count == 5 && is(table, "002004", "04"));
    MUST(eb_kv_close(table) && eb_kv_close(kv));
    kv = eb_kv_open("loads", 0);
    MUST(kv && eb_kv_count(kv, &count) && count == 2000);
}

/* Thinned-out leaves become full ones, of which the next compaction replaces none. */
static void compacts(void) {
    eb_kv kv = eb_kv_open("thin", EB_KV_CREATE);
    eb_kv_batch batch = eb_kv_begin(kv);
    struct source all = {0, 3000, 1, batch, kv};
    eb_kv_compacted done = {0}, again = {0};
    FAILS(eb_kv_compact(kv, &done), EBUSY);
    MUST(eb_kv_batch_load(batch, 0, numbers, &all, NULL));
    for (int number = 0; number < 3000; number++) {
        char key[16];
        snprintf(key, sizeof key, "%06d", number);
        if (number % 3) MUST(eb_kv_batch_delete(batch, 0, key, 6));
    }
    MUST(eb_kv_commit(batch));
    eb_kv_view view = eb_kv_snapshot(kv);
    FAILS(eb_kv_compact(view, &done), EBADF);
    FAILS(eb_kv_compact(0, NULL), EBADF);
    MUST(eb_kv_close(view) && eb_kv_compact(kv, &done));
    MUST(done.entries >= 1000 && done.written > 0 && done.written < done.replaced && done.after < done.before);
    MUST(eb_kv_compact(kv, &again) && again.entries == 1000 && !again.replaced && !again.written);
    MUST(again.before == done.after && again.after == done.after && eb_kv_compact(kv, NULL));
    uint64_t count = 0;
    MUST(eb_kv_count(kv, &count) && count == 1000 && is(kv, "002997", "97"));
}

static eb_kv_batch shared;

static void *elsewhere(void *kv) {
    FAILS(eb_kv_batch_put(shared, 0, "a", 1, "b", 1), EBADF);
    FAILS(eb_kv_commit(shared), EBADF);
    FAILS(eb_kv_close(shared), EBADF);
    return kv;
}

/* A thread that ends gives its batch up. */
static void *leaves_one(void *kv) {
    eb_kv_batch batch = eb_kv_begin(*(eb_kv *)kv);
    MUST(batch && eb_kv_batch_put(batch, 0, "left", 4, "behind", 6));
    return NULL;
}

static void batches(void) {
    eb_kv kv = eb_kv_open("shop", EB_KV_CREATE);
    eb_kv_table stock = eb_kv_table_open(kv, "stock", EB_KV_CREATE);
    MUST(put(stock, "apples", "97"));
    eb_kv_batch batch = eb_kv_begin(kv);
    MUST(batch);
    FAILS(eb_kv_begin(kv), EBUSY);
    FAILS(put(kv, "a", "b"), EBUSY);
    FAILS(eb_kv_table_open(kv, "more", EB_KV_CREATE), EBUSY);
    shared = batch;
    pthread_t thread;
    MUST(!pthread_create(&thread, NULL, elsewhere, NULL) && !pthread_join(thread, NULL));
    MUST(eb_kv_batch_put(batch, 0, "order 1", 7, "3 apples", 8));
    MUST(eb_kv_batch_put(batch, stock, "apples", 6, "94", 2));
    uint64_t here = eb_kv_savepoint(batch);
    MUST(here == 1 && eb_kv_batch_put(batch, 0, "order 2", 7, "?", 1));
    MUST(eb_kv_savepoint(batch) == 2);
    MUST(eb_kv_batch_delete(batch, stock, "apples", 6));
    FAILS(eb_kv_batch_delete(batch, stock, "apples", 6), ENOENT);
    MUST(eb_kv_roll_back(batch, here));
    FAILS(eb_kv_roll_back(batch, 2), EINVAL);
    FAILS(eb_kv_roll_back(batch, 0), EINVAL);
    char value[8];
    size_t len = 0;
    MUST(eb_kv_batch_get(batch, stock, "apples", 6, value, 8, &len) && len == 2 && !memcmp(value, "94", 2));
    FAILS(eb_kv_batch_get(batch, 0, "order 2", 7, value, 8, &len), ENOENT);
    MUST(is(stock, "apples", "97"));
    MUST(eb_kv_commit(batch) && is(stock, "apples", "94") && is(kv, "order 1", "3 apples"));
    FAILS(eb_kv_commit(batch), EBADF);

    for (char key = 'a'; key <= 'j'; key++) MUST(eb_kv_put(stock, &key, 1, "v", 1));
    batch = eb_kv_begin(kv);
    uint64_t count = 0;
    MUST(eb_kv_batch_delete_range(batch, stock, "b", 1, "e", 1, &count) && count == 3);
    MUST(eb_kv_close(batch) && is(stock, "c", "v"));
    batch = eb_kv_begin(kv);
    MUST(eb_kv_batch_delete_range(batch, stock, "b", 1, NULL, 0, NULL) && eb_kv_commit(batch));
    MUST(!strcmp(walk(eb_kv_range(stock, NULL, 0, NULL, 0), eb_kv_next), "a apples "));
    MUST(!pthread_create(&thread, NULL, leaves_one, &kv) && !pthread_join(thread, NULL));
    FAILS(eb_kv_get(kv, "left", 4, NULL, 0, NULL), ENOENT);
    MUST(put(kv, "last", "one"));

    /* A child of fork that exits leaves the batch of its parent alone. */
    batch = eb_kv_begin(kv);
    MUST(batch && eb_kv_batch_put(batch, 0, "before", 6, "fork", 4));
    pid_t child = fork();
    if (!child) exit(0);
    int status = 1;
    MUST(waitpid(child, &status, 0) == child && !status);
    MUST(eb_kv_commit(batch) && is(kv, "before", "fork"));
    MUST(eb_kv_begin(kv)); /* given up at the end of the process */
}

static void hostile(void) {
    eb_kv kv = eb_kv_open("pairs", EB_KV_CREATE);
    eb_kv_table table = eb_kv_table_open(kv, "t", EB_KV_CREATE);
    eb_kv_view view = eb_kv_snapshot(kv);
    eb_kv_cursor cursor = eb_kv_range(view, NULL, 0, NULL, 0);
    uint64_t wrong[] = {0, UINT64_MAX, 12345, cursor, view};
    uint64_t count;
    for (int i = 0; i < 5; i++) {
        FAILS(put(wrong[i], "a", "b"), EBADF);
        FAILS(eb_kv_delete(wrong[i], "a", 1), EBADF);
        FAILS(eb_kv_snapshot(wrong[i]), EBADF);
        FAILS(eb_kv_begin(wrong[i]), EBADF);
        FAILS(eb_kv_table_open(wrong[i], "t", 0), EBADF);
        FAILS(eb_kv_tables(wrong[i], join, NULL), EBADF);
        FAILS(eb_kv_version_name(wrong[i], "v"), EBADF);
        FAILS(eb_kv_batch_put(wrong[i], 0, "a", 1, "b", 1), EBADF);
        FAILS(eb_kv_savepoint(wrong[i]), EBADF);
        FAILS(eb_kv_commit(wrong[i]), EBADF);
        if (i < 4) FAILS(eb_kv_get(wrong[i], "a", 1, NULL, 0, NULL), EBADF);
        if (i < 4) FAILS(eb_kv_range(wrong[i], NULL, 0, NULL, 0), EBADF);
        if (i != 3) FAILS(eb_kv_next(wrong[i], NULL, NULL, NULL, NULL), EBADF);
        if (i < 3) FAILS(eb_kv_close(wrong[i]), EBADF);
    }
    FAILS(eb_kv_open(NULL, 0), EFAULT);
    FAILS(eb_kv_open("\xff", EB_KV_CREATE), EINVAL);
    FAILS(eb_kv_table_open(kv, NULL, 0), EFAULT);
    FAILS(eb_kv_table_open(kv, "", EB_KV_CREATE), EINVAL);
    static char long_name[5000];
    memset(long_name, 'n', sizeof long_name - 1);
    FAILS(eb_kv_open(long_name, EB_KV_CREATE), EINVAL);
    FAILS(eb_kv_put(kv, NULL, 1, "b", 1), EFAULT);
    FAILS(eb_kv_put(kv, "a", 1, NULL, 1), EFAULT);
    FAILS(eb_kv_put(kv, "a", SIZE_MAX, "b", 1), EINVAL);
    FAILS(eb_kv_count(kv, NULL), EFAULT);
    FAILS(eb_kv_tables(kv, NULL, NULL), EFAULT);
    MUST(put(kv, "a", "b"));
    FAILS(eb_kv_get(kv, "a", 1, NULL, 5, NULL), EFAULT);
    FAILS(eb_kv_range(kv, NULL, 1, NULL, 0), EFAULT);
    static char long_key[(16 << 20) + 1];
    FAILS(eb_kv_put(kv, long_key, sizeof long_key, "", 0), E2BIG);
    eb_kv_batch batch = eb_kv_begin(kv);
    FAILS(eb_kv_batch_put(batch, view, "a", 1, "b", 1), EBADF);
    FAILS(eb_kv_batch_put(batch, 99999, "a", 1, "b", 1), EBADF);
    MUST(eb_kv_commit(batch));

    /* In a child of fork nothing is open. */
    pid_t child = fork();
    if (!child) {
        FAILS(put(kv, "a", "c"), EPERM);
        FAILS(eb_kv_get(view, "a", 1, NULL, 0, NULL), EPERM);
        _exit(0);
    }
    int status = 1;
    MUST(waitpid(child, &status, 0) == child && !status);
    MUST(is(kv, "a", "b"));

    /* Tables, views and cursors keep the store open. */
    MUST(eb_kv_close(kv));
    FAILS(eb_kv_close(kv), EBADF);
    FAILS(put(kv, "a", "b"), EBADF);
    FAILS(eb_kv_open("pairs", 0), EBUSY);
    MUST(put(table, "x", "y") && eb_kv_close(table) && eb_kv_close(view));
    FAILS(eb_kv_open("pairs", 0), EBUSY);
    MUST(eb_kv_next(cursor, NULL, NULL, NULL, NULL) == 0 && errno == 0 && eb_kv_close(cursor));
    kv = eb_kv_open("pairs", 0);
    MUST(kv && is(kv, "a", "b") && eb_kv_count(kv, &count) && count == 1);
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "calls")) calls();
    else if (!strcmp(part, "loads")) loads();
    else if (!strcmp(part, "compacts")) compacts();
    else if (!strcmp(part, "batches")) batches();
    else if (!strcmp(part, "hostile")) hostile();
    else return 2;
    return 0;
}
