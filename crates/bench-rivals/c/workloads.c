/* The workloads of the bench, in libpmemobj: a binary tree, a hash table, a B+tree of eight ways, a
 * word count. The same algorithms as crates/bench/src/structures/, one transaction for each
 * operation, as the library's manual does them: ranges are added before they change, memory comes
 * from pmemobj_tx_alloc, pointers are PMEMoid.
 *
 * Every function takes an open pool whose root object has at least sizeof(struct root) bytes of
 * zeros. THREADS: one per pool, except rival_count_words. */

#include "tx.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WAYS 8
#define WORD 24

struct bst_node {
    uint64_t key, value;
    PMEMoid left, right;
};

struct entry {
    uint64_t key;
    uint8_t value[64];
    PMEMoid next;
};

struct btree_node {
    uint64_t count, is_leaf;
    uint64_t keys[WAYS - 1];
    uint64_t values[WAYS - 1];
    PMEMoid children[WAYS];
};

struct word {
    uint8_t text[WORD];
    uint64_t count;
    PMEMoid next;
};

struct shard {
    PMEMmutex lock;
    PMEMoid buckets; /* of PMEMoid */
    uint64_t count;
};

struct root {
    PMEMoid bst, btree;
    PMEMoid buckets; /* of PMEMoid */
    uint64_t bucket_count;
    PMEMoid shards; /* of struct shard */
    uint64_t shard_count;
};

static struct root *root_of(PMEMobjpool *pool) {
    return pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
}

static void add(const void *at, size_t size) {
    must(pmemobj_tx_add_range_direct(at, size) == 0, "add a range");
}

static PMEMoid new(size_t size) {
    PMEMoid oid = pmemobj_tx_alloc(size, 1);
    must(!OID_IS_NULL(oid), "allocate");
    return oid;
}

static void release(PMEMoid oid) {
    must(pmemobj_tx_free(oid) == 0, "free");
}

/* SplitMix64's last step, which maps numbers to numbers one to one. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t next(uint64_t *random) {
    return mix(*random += 0x9e3779b97f4a7c15u);
}

/* Binary tree. */

static PMEMoid *bst_find(PMEMoid *slot, uint64_t key) {
    while (!OID_IS_NULL(*slot)) {
        struct bst_node *node = pmemobj_direct(*slot);
        if (node->key == key)
            break;
        slot = key < node->key ? &node->left : &node->right;
    }
    return slot;
}

static uint64_t bst_get(PMEMobjpool *pool, struct root *root, uint64_t key) {
    (void)pool;
    PMEMoid *slot = bst_find(&root->bst, key);
    return OID_IS_NULL(*slot) ? 0 : ((struct bst_node *)pmemobj_direct(*slot))->value;
}

static uint64_t bst_put(PMEMobjpool *pool, struct root *root, uint64_t key, uint64_t value) {
    begin(pool);
    PMEMoid *slot = bst_find(&root->bst, key);
    uint64_t is_new = OID_IS_NULL(*slot);
    if (is_new) {
        PMEMoid oid = new(sizeof(struct bst_node));
        *(struct bst_node *)pmemobj_direct(oid) = (struct bst_node){key, value, OID_NULL, OID_NULL};
        add(slot, sizeof *slot);
        *slot = oid;
    } else {
        struct bst_node *node = pmemobj_direct(*slot);
        add(&node->value, sizeof node->value);
        node->value = value;
    }
    commit();
    return is_new;
}

static uint64_t bst_remove(PMEMobjpool *pool, struct root *root, uint64_t key) {
    begin(pool);
    uint64_t value = 0;
    PMEMoid *slot = bst_find(&root->bst, key);
    if (!OID_IS_NULL(*slot)) {
        struct bst_node *node = pmemobj_direct(*slot);
        value = node->value;
        if (!OID_IS_NULL(node->left) && !OID_IS_NULL(node->right)) {
            slot = &node->right;
            struct bst_node *least = pmemobj_direct(*slot);
            while (!OID_IS_NULL(least->left)) {
                slot = &least->left;
                least = pmemobj_direct(*slot);
            }
            add(node, 2 * sizeof(uint64_t));
            node->key = least->key;
            node->value = least->value;
            node = least;
        }
        PMEMoid gone = *slot;
        add(slot, sizeof *slot);
        *slot = OID_IS_NULL(node->left) ? node->right : node->left;
        release(gone);
    }
    commit();
    return value;
}

/* Hash table with chains. */

static PMEMoid *kv_find(struct root *root, uint64_t key) {
    PMEMoid *buckets = pmemobj_direct(root->buckets);
    PMEMoid *slot = &buckets[key % root->bucket_count];
    while (!OID_IS_NULL(*slot)) {
        struct entry *entry = pmemobj_direct(*slot);
        if (entry->key == key)
            break;
        slot = &entry->next;
    }
    return slot;
}

static uint64_t kv_get(PMEMobjpool *pool, struct root *root, uint64_t key) {
    (void)pool;
    PMEMoid *slot = kv_find(root, key);
    if (OID_IS_NULL(*slot))
        return 0;
    uint64_t words[8], sum = 0;
    memcpy(words, ((struct entry *)pmemobj_direct(*slot))->value, sizeof words);
    for (int i = 0; i < 8; i++)
        sum += words[i];
    return sum;
}

static uint64_t kv_put(PMEMobjpool *pool, struct root *root, uint64_t key, uint64_t value) {
    uint64_t words[8];
    for (uint64_t i = 0; i < 8; i++)
        words[i] = value + i;
    begin(pool);
    PMEMoid *slot = kv_find(root, key);
    uint64_t is_new = OID_IS_NULL(*slot);
    if (is_new) {
        PMEMoid oid = new(sizeof(struct entry));
        struct entry *entry = pmemobj_direct(oid);
        entry->key = key;
        memcpy(entry->value, words, sizeof words);
        entry->next = OID_NULL;
        add(slot, sizeof *slot);
        *slot = oid;
    } else {
        struct entry *entry = pmemobj_direct(*slot);
        add(entry->value, sizeof entry->value);
        memcpy(entry->value, words, sizeof words);
    }
    commit();
    return is_new;
}

static uint64_t kv_remove(PMEMobjpool *pool, struct root *root, uint64_t key) {
    begin(pool);
    PMEMoid *slot = kv_find(root, key), gone = *slot;
    if (!OID_IS_NULL(gone)) {
        add(slot, sizeof *slot);
        *slot = ((struct entry *)pmemobj_direct(gone))->next;
        release(gone);
    }
    commit();
    return !OID_IS_NULL(gone);
}

/* B+tree: values in leaves, full nodes split on the way down, leaves may become empty. Key i of an
 * inner node is the least that may lie in child i + 1. */

static int btree_place(const struct btree_node *node, uint64_t key) {
    int place = 0;
    while (place < (int)node->count && key >= node->keys[place])
        place++;
    return place;
}

static uint64_t btree_get(PMEMobjpool *pool, struct root *root, uint64_t key) {
    (void)pool;
    PMEMoid oid = root->btree;
    if (OID_IS_NULL(oid))
        return 0;
    struct btree_node *node = pmemobj_direct(oid);
    while (!node->is_leaf)
        node = pmemobj_direct(node->children[btree_place(node, key)]);
    int place = btree_place(node, key) - 1;
    return place >= 0 && node->keys[place] == key ? node->values[place] : 0;
}

/* Splits child `place`, which is full, of a node that has been added and is not. */
static void btree_split(struct btree_node *node, int place) {
    struct btree_node *left = pmemobj_direct(node->children[place]);
    PMEMoid oid = new(sizeof(struct btree_node));
    struct btree_node *right = pmemobj_direct(oid);
    memset(right, 0, sizeof *right);
    add(left, sizeof *left);
    int from = left->is_leaf ? WAYS / 2 - 1 : WAYS / 2;
    uint64_t between = left->keys[WAYS / 2 - 1];
    right->is_leaf = left->is_leaf;
    right->count = WAYS - 1 - from;
    memcpy(right->keys, left->keys + from, right->count * sizeof(uint64_t));
    if (left->is_leaf)
        memcpy(right->values, left->values + from, right->count * sizeof(uint64_t));
    else
        memcpy(right->children, left->children + from, (right->count + 1) * sizeof(PMEMoid));
    left->count = WAYS / 2 - 1;
    memmove(node->keys + place + 1, node->keys + place, (node->count - place) * sizeof(uint64_t));
    memmove(node->children + place + 2, node->children + place + 1, (node->count - place) * sizeof(PMEMoid));
    node->keys[place] = between;
    node->children[place + 1] = oid;
    node->count++;
}

static uint64_t btree_put(PMEMobjpool *pool, struct root *root, uint64_t key, uint64_t value) {
    begin(pool);
    struct btree_node *node = NULL;
    if (!OID_IS_NULL(root->btree))
        node = pmemobj_direct(root->btree);
    if (!node || node->count == WAYS - 1) {
        PMEMoid oid = new(sizeof(struct btree_node));
        struct btree_node *top = pmemobj_direct(oid);
        memset(top, 0, sizeof *top);
        top->is_leaf = !node;
        if (node) {
            top->children[0] = root->btree;
            btree_split(top, 0);
        }
        add(&root->btree, sizeof root->btree);
        root->btree = oid;
        node = top;
    }
    while (!node->is_leaf) {
        int place = btree_place(node, key);
        struct btree_node *child = pmemobj_direct(node->children[place]);
        if (child->count == WAYS - 1) {
            add(node, sizeof *node);
            btree_split(node, place);
            place += key >= node->keys[place];
            child = pmemobj_direct(node->children[place]);
        }
        node = child;
    }
    int place = btree_place(node, key);
    uint64_t is_new = place == 0 || node->keys[place - 1] != key;
    add(node, sizeof *node);
    if (is_new) {
        memmove(node->keys + place + 1, node->keys + place, (node->count - place) * sizeof(uint64_t));
        memmove(node->values + place + 1, node->values + place, (node->count - place) * sizeof(uint64_t));
        node->keys[place] = key;
        node->values[place] = value;
        node->count++;
    } else {
        node->values[place - 1] = value;
    }
    commit();
    return is_new;
}

static uint64_t btree_remove(PMEMobjpool *pool, struct root *root, uint64_t key) {
    begin(pool);
    uint64_t value = 0;
    PMEMoid oid = root->btree;
    struct btree_node *node = OID_IS_NULL(oid) ? NULL : pmemobj_direct(oid);
    while (node && !node->is_leaf)
        node = pmemobj_direct(node->children[btree_place(node, key)]);
    int place = node ? btree_place(node, key) : 0;
    if (place > 0 && node->keys[place - 1] == key) {
        value = node->values[place - 1];
        add(node, sizeof *node);
        memmove(node->keys + place - 1, node->keys + place, (node->count - place) * sizeof(uint64_t));
        memmove(node->values + place - 1, node->values + place, (node->count - place) * sizeof(uint64_t));
        node->count--;
    }
    commit();
    return value;
}

/* A run: `count` operations on `keys` keys, answered by a sum of what they found. `what`: 0 all
 * three kinds, 1 get, 2 load: every second key. `structure`: 0 binary tree, 1 hash table, 2
 * B+tree. */

typedef uint64_t (*get_op)(PMEMobjpool *, struct root *, uint64_t);
typedef uint64_t (*put_op)(PMEMobjpool *, struct root *, uint64_t, uint64_t);

uint64_t rival_run(PMEMobjpool *pool, int structure, int what, uint64_t *random, uint64_t keys, uint64_t count) {
    static const get_op gets[] = {bst_get, kv_get, btree_get};
    static const put_op puts[] = {bst_put, kv_put, btree_put};
    static const get_op removes[] = {bst_remove, kv_remove, btree_remove};
    get_op get = gets[structure], remove = removes[structure];
    put_op put = puts[structure];
    struct root *root = root_of(pool);
    uint64_t sum = 0;
    if (what == 2) {
        for (uint64_t number = 0; number < keys; number += 2)
            sum += put(pool, root, mix(number), number);
        return sum;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = next(random), key = mix(((word >> 32) * keys) >> 32);
        uint64_t kind = what == 1 ? 2 : word % 3;
        sum += kind == 0 ? put(pool, root, key, word) : kind == 1 ? remove(pool, root, key) : get(pool, root, key);
    }
    return sum;
}

static PMEMoid oids(uint64_t count) {
    PMEMoid oid = pmemobj_tx_zalloc(count * sizeof(PMEMoid), 2);
    must(!OID_IS_NULL(oid), "allocate a table");
    return oid;
}

/* Makes the hash table, of `buckets` buckets, and the word table, of `shards` shards of `words`
 * buckets. */
void rival_tables(PMEMobjpool *pool, uint64_t buckets, uint64_t shards, uint64_t words) {
    struct root *root = root_of(pool);
    begin(pool);
    add(root, sizeof *root);
    root->buckets = oids(buckets);
    root->bucket_count = buckets;
    root->shard_count = shards;
    root->shards = pmemobj_tx_zalloc(shards * sizeof(struct shard), 3);
    must(!OID_IS_NULL(root->shards), "allocate a table");
    struct shard *all = pmemobj_direct(root->shards);
    for (uint64_t i = 0; i < shards; i++) {
        all[i].buckets = oids(words);
        all[i].count = words;
    }
    commit();
}

/* Counts `count` words of WORD bytes each, padded with zeros; `hashes` are theirs. */
void rival_count_words(PMEMobjpool *pool, const uint8_t *words, const uint64_t *hashes, uint64_t count) {
    struct root *root = root_of(pool);
    struct shard *shards = pmemobj_direct(root->shards);
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *text = words + i * WORD;
        struct shard *shard = &shards[hashes[i] % root->shard_count];
        must(pmemobj_tx_begin(pool, NULL, TX_PARAM_MUTEX, &shard->lock, TX_PARAM_NONE) == 0, "begin");
        PMEMoid *buckets = pmemobj_direct(shard->buckets);
        PMEMoid *slot = &buckets[(hashes[i] >> 32) % shard->count];
        struct word *found = NULL;
        while (!OID_IS_NULL(*slot)) {
            struct word *word = pmemobj_direct(*slot);
            if (!memcmp(word->text, text, WORD)) {
                found = word;
                break;
            }
            slot = &word->next;
        }
        if (found) {
            add(&found->count, sizeof found->count);
            found->count++;
        } else {
            PMEMoid oid = new(sizeof(struct word));
            struct word *word = pmemobj_direct(oid);
            memcpy(word->text, text, WORD);
            word->count = 1;
            word->next = OID_NULL;
            add(slot, sizeof *slot);
            *slot = oid;
        }
        commit();
    }
}

/* A sum over all words of hash times count: the same for the same words. */
uint64_t rival_words_sum(PMEMobjpool *pool) {
    struct root *root = root_of(pool);
    struct shard *shards = pmemobj_direct(root->shards);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < root->shard_count; i++) {
        PMEMoid *buckets = pmemobj_direct(shards[i].buckets);
        for (uint64_t bucket = 0; bucket < shards[i].count; bucket++)
            for (PMEMoid at = buckets[bucket]; !OID_IS_NULL(at); at = ((struct word *)pmemobj_direct(at))->next) {
                struct word *word = pmemobj_direct(at);
                uint64_t first;
                memcpy(&first, word->text, sizeof first);
                sum += mix(first) * word->count;
            }
    }
    return sum;
}
