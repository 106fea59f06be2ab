/* Berkeley DB 5.3 as its manual has it for durable changes: an environment with transactions, each
 * change one of its own whose log is written and synced when it returns.
 *
 * Calls answer what Berkeley DB answers: 0, DB_KEYEXIST, DB_NOTFOUND, or an error that bdb_said
 * puts into words. THREADS: any, on one handle. */

#include <db.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bdb {
    DB_ENV *env;
    DB *db;
    uint32_t changes; /* a hint: when to look whether the log has become long */
};

enum { CACHE_GB = 2, LOG_FILE = 64 << 20, CHECKPOINT_KB = 1 << 20, CHANGES_BETWEEN = 4096 };

const char *bdb_said(int error) { return db_strerror(error); }

void bdb_close(struct bdb *at) {
    if (at->db) at->db->close(at->db, 0);
    if (at->env) at->env->close(at->env, 0);
    free(at);
}

/* Opens or makes a database in a folder that exists. */
int bdb_open(struct bdb **opened, const char *folder, int hash) {
    struct bdb *at = calloc(1, sizeof *at);
    int error = at ? db_env_create(&at->env, 0) : DB_RUNRECOVERY;
    if (!error) error = at->env->set_cachesize(at->env, CACHE_GB, 0, 1);
    if (!error) error = at->env->set_lg_max(at->env, LOG_FILE);
    if (!error) error = at->env->set_lk_detect(at->env, DB_LOCK_DEFAULT);
    if (!error) error = at->env->log_set_config(at->env, DB_LOG_AUTO_REMOVE, 1);
    uint32_t parts = DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_LOCK | DB_INIT_TXN;
    if (!error) error = at->env->open(at->env, folder, parts | DB_CREATE | DB_RECOVER | DB_PRIVATE | DB_THREAD, 0600);
    if (!error) error = db_create(&at->db, at->env, 0);
    DBTYPE type = hash ? DB_HASH : DB_BTREE;
    if (!error) error = at->db->open(at->db, NULL, "pairs", NULL, type, DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0600);
    if (error && at) bdb_close(at);
    *opened = error ? NULL : at;
    return error;
}

static DBT bytes(const void *at, uint32_t len) {
    DBT dbt;
    memset(&dbt, 0, sizeof dbt);
    dbt.data = (void *)at;
    dbt.size = len;
    return dbt;
}

/* A change that lost to another thread's is made again. Old logs go when the log has become
 * long. */
static int again(struct bdb *at, int error) {
    if (error == DB_LOCK_DEADLOCK) return 1;
    if (!error && ++at->changes % CHANGES_BETWEEN == 0) at->env->txn_checkpoint(at->env, CHECKPOINT_KB, 0, 0);
    return 0;
}

/* Opens a transaction of many puts. */
int bdb_begin(struct bdb *at, DB_TXN **txn) { return at->env->txn_begin(at->env, NULL, txn, 0); }

int bdb_put_in(struct bdb *at, DB_TXN *txn, const void *key, uint32_t key_len, const void *value, uint32_t value_len) {
    DBT one = bytes(key, key_len), two = bytes(value, value_len);
    return at->db->put(at->db, txn, &one, &two, 0);
}

/* Ends a transaction of many puts; it is durable after the next bdb_sync. */
int bdb_commit(struct bdb *at, DB_TXN *txn) {
    int error = txn->commit(txn, DB_TXN_NOSYNC);
    return error ? error : at->env->txn_checkpoint(at->env, CHECKPOINT_KB, 0, 0);
}

void bdb_abort(DB_TXN *txn) { txn->abort(txn); }

/* Writes and syncs the log of all commits so far. */
int bdb_sync(struct bdb *at) { return at->env->log_flush(at->env, NULL); }

/* Goes through up to `count` pairs from the first key that is not below `key`, and hands each value
 * to `take`, to be copied before it returns. */
int bdb_scan(struct bdb *at, const void *key, uint32_t key_len, size_t count,
             void (*take)(void *context, const void *value, size_t len), void *context) {
    DBC *cursor;
    int error = at->db->cursor(at->db, NULL, &cursor, 0);
    if (error) return error;
    DBT one = bytes(key, key_len), two = bytes(NULL, 0);
    for (size_t pair = 0; pair < count && !error; pair++) {
        error = cursor->get(cursor, &one, &two, pair ? DB_NEXT : DB_SET_RANGE);
        if (!error) take(context, two.data, two.size);
    }
    int closed = cursor->close(cursor);
    return error && error != DB_NOTFOUND ? error : closed;
}

/* Stores a pair; `new`: only if the key is not there, else DB_KEYEXIST. */
int bdb_put(struct bdb *at, const void *key, uint32_t key_len, const void *value, uint32_t value_len, int new) {
    int error;
    do {
        DBT one = bytes(key, key_len), two = bytes(value, value_len);
        error = at->db->put(at->db, NULL, &one, &two, DB_AUTO_COMMIT | (new ? DB_NOOVERWRITE : 0));
    } while (again(at, error));
    return error;
}

int bdb_delete(struct bdb *at, const void *key, uint32_t key_len) {
    int error;
    do {
        DBT one = bytes(key, key_len);
        error = at->db->del(at->db, NULL, &one, DB_AUTO_COMMIT);
    } while (again(at, error));
    return error;
}

/* Copies a value to `room` bytes; DB_BUFFER_SMALL if it is longer than that. */
int bdb_get(struct bdb *at, const void *key, uint32_t key_len, void *value, uint32_t room, uint32_t *value_len) {
    int error;
    do {
        DBT one = bytes(key, key_len), two = bytes(value, 0);
        two.ulen = room;
        two.flags = DB_DBT_USERMEM;
        error = at->db->get(at->db, NULL, &one, &two, 0);
        *value_len = two.size;
    } while (error == DB_LOCK_DEADLOCK);
    return error;
}

/* Bytes appended to the log since the environment was opened. */
uint64_t bdb_log_bytes(struct bdb *at) {
    DB_LOG_STAT *stat = NULL;
    if (at->env->log_stat(at->env, &stat, 0)) return 0;
    uint64_t sum = ((uint64_t)stat->st_w_mbytes << 20) + stat->st_w_bytes;
    free(stat);
    return sum;
}

int bdb_is_there(int error) { return error == DB_KEYEXIST; }
int bdb_is_absent(int error) { return error == DB_NOTFOUND; }
int bdb_is_short(int error) { return error == DB_BUFFER_SMALL; }
int bdb_is_deadlock(int error) { return error == DB_LOCK_DEADLOCK; }
