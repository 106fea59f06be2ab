/* Several processes on one object: a list in which every worker has entries of its own, and all
 * change the same pointers. */
#define _POSIX_C_SOURCE 200809L
#include "require.h"
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 16
/* Older entries than this many are removed, some at a time. */
#define KEPT 64

struct entry {
    struct entry *next;
    uint64_t worker, number, len;
    unsigned char bytes[];
};

static unsigned char byte_of(const struct entry *entry) { return (unsigned char)(entry->worker * 31 + entry->number); }

/* Whether a worker whose newest entry is `last` has entry `number`: each third insertion removes
 * the previous entry, and each KEPTth removes all entries that are KEPT older. */
static int is_kept(uint64_t number, uint64_t last) {
    uint64_t oldest = last < 2 * KEPT ? 1 : last / KEPT * KEPT - KEPT + 1;
    return number >= oldest && number <= last && !(number % 3 == 2 && number < last);
}

static struct entry *first(void) { return heapo_get_prime_node("shared"); }

/* The pointer to this entry, logged. */
static void point(struct entry *before, struct entry *to) {
    if (!before) {
        MUST(heapo_set_prime_node("shared", to));
        return;
    }
    MUST(heapo_tx_append("shared", &before->next, sizeof before->next));
    before->next = to;
}

/* Removes the outdated entries of a worker. */
static void prune(uint64_t worker, uint64_t last) {
    struct entry *before = NULL;
    for (struct entry *entry = first(); entry;) {
        struct entry *next = entry->next;
        if (entry->worker == worker && !is_kept(entry->number, last)) {
            point(before, next);
            MUST(heapo_free("shared", entry));
        } else before = entry;
        entry = next;
    }
}

static void add(uint64_t worker, uint64_t number) {
    static const size_t sizes[] = {8, 40, 100, 700, 5000, 20};
    MUST(heapo_tx_begin("shared"));
    size_t len = number % 97 == 0 ? 70000 : sizes[number % 6];
    struct entry *entry = heapo_malloc("shared", sizeof *entry + len);
    MUST(entry);
    *entry = (struct entry){first(), worker, number, len};
    memset(entry->bytes, byte_of(entry), len);
    MUST(heapo_set_prime_node("shared", entry));
    if (number % 3 == 0 || number % KEPT == 0) prune(worker, number);
    MUST(heapo_tx_end("shared"));
}

/* Adds entries until it is killed or its input ends, and prints each settled one. */
static void hammer(uint64_t worker) {
    MUST(heapo_create("shared") || errno == EEXIST);
    MUST(heapo_map("shared"));
    uint64_t last = 0;
    MUST(heapo_lock("shared"));
    for (struct entry *entry = first(); entry; entry = entry->next)
        if (entry->worker == worker && entry->number > last) last = entry->number;
    MUST(heapo_unlock("shared"));
    for (;;) {
        add(worker, ++last);
        if (printf("%llu\n", (unsigned long long)last) < 0 || fflush(stdout)) exit(0); /* the reader has closed the pipe */
    }
}

/* Checks the whole list, and prints the newest entry of each worker. */
static void look(void) {
    uint64_t last[WORKERS] = {0}, count[WORKERS] = {0};
    MUST(heapo_map("shared") && heapo_lock("shared"));
    for (struct entry *entry = first(); entry; entry = entry->next) {
        MUST(entry->worker < WORKERS);
        if (entry->number > last[entry->worker]) last[entry->worker] = entry->number;
    }
    for (struct entry *entry = first(); entry; entry = entry->next) {
        MUST(is_kept(entry->number, last[entry->worker]));
        for (size_t at = 0; at < entry->len; at++) MUST(entry->bytes[at] == byte_of(entry));
        count[entry->worker]++;
    }
    for (int worker = 0; worker < WORKERS; worker++) {
        uint64_t kept = 0;
        for (uint64_t number = 1; number <= last[worker]; number++) kept += (uint64_t)is_kept(number, last[worker]);
        MUST(count[worker] == kept);
        printf("%llu\n", (unsigned long long)last[worker]);
    }
    MUST(heapo_unlock("shared"));
}

/* Waits for a message of the other process. */
static void await(int from) {
    char byte;
    MUST(read(from, &byte, 1) == 1);
}

static void tell(int to) { MUST(write(to, "x", 1) == 1); }

/* The other process of `calls`: a separate program, with one pipe as input and one as output. */
static void other(void) {
    await(0);
    MUST(heapo_map("a") && heapo_create("b"));
    char **cells = heapo_get_prime_node("a");
    MUST(!strcmp(cells[0], "from the first"));
    tell(1), await(0);
    MUST(!strcmp(cells[1], "far away")); /* in what the object has grown by since, found by its pointer alone */
    MUST(heapo_free("a", cells[1]));
    FAILS(heapo_delete("a"), EBUSY); /* the first has it mapped, and so has this one still */
    MUST(heapo_is_mapped("a") && heapo_unmap("a") && heapo_unmap("b"));
    tell(1), await(0);
    FAILS(heapo_map("b"), ENOENT);
}

/* Bytes that the store has on the file system. */
static size_t room(void) {
    struct stat found;
    MUST(!stat(getenv("EVERBYTE_STORE"), &found));
    return (size_t)found.st_blocks * 512;
}

static void calls(const char *self) {
    int to[2], from[2];
    MUST(!pipe(to) && !pipe(from));
    pid_t child = fork(); /* before the store is open here */
    if (!child) {
        dup2(to[0], 0), dup2(from[1], 1);
        for (int fd = 3; fd < 10; fd++) close(fd);
        execl(self, self, "other", (char *)NULL);
        _exit(1);
    }
    MUST(heapo_create("a"));
    char **cells = heapo_calloc("a", 2, sizeof *cells), *large;
    MUST(cells && heapo_set_prime_node("a", cells));
    MUST((cells[0] = heapo_calloc("a", 1, 32)) && strcpy(cells[0], "from the first"));
    tell(to[1]), await(from[0]);
    MUST(heapo_map("b") && heapo_unmap("b"));
    FAILS(heapo_delete("b"), EBUSY);
    char pid[32];
    sprintf(pid, "pid %d", (int)child);
    MUST(strstr(everbyte_error(), pid));
    MUST((large = heapo_malloc("a", 4 << 20)) && strcpy(large, "far away"));
    cells[1] = large;
    size_t full = room();
    tell(to[1]), await(from[0]);
    FAILS(heapo_free("a", large), EINVAL); /* the other has freed it */
    MUST(room() + (2 << 20) < full);       /* and given most of it back */
    MUST((large = heapo_malloc("a", 4 << 20)));
    memset(large, 7, 4 << 20);
    MUST(room() + (1 << 20) > full);
    FAILS(heapo_unlock("a"), EPERM);
    MUST(heapo_delete("b"));
    tell(to[1]);
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    MUST(heapo_delete("a"));
}

static void resize(void) {
    const size_t cluster = 65536, many = 64 * cluster;
    MUST(heapo_create("r") && heapo_expand("r", many));
    FAILS(heapo_expand("r", (size_t)1 << 40), ENOMEM);
    FAILS(heapo_expand("r", 63 << 20), ENOSPC);
    char *chunk = heapo_malloc("r", many);
    MUST(chunk);
    memset(chunk, 1, many);
    FAILS(heapo_shrink("r", chunk, many), EBUSY);
    char *small = heapo_malloc("r", 100);
    MUST(small && heapo_free("r", chunk));
    FAILS(heapo_shrink("r", (char *)((uintptr_t)small & ~(cluster - 1)), cluster), EBUSY);
    MUST(heapo_shrink("r", chunk, many) && heapo_shrink("r", chunk, many) && heapo_shrink("r", NULL, 0));
    MUST(heapo_free("r", small) && heapo_shrink("r", NULL, 0));
    MUST((chunk = heapo_malloc("r", many)));
    memset(chunk, 2, many);
    MUST(heapo_delete("r"));
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "hammer")) hammer(strtoull(argv[2], NULL, 10));
    else if (!strcmp(part, "look")) look();
    else if (!strcmp(part, "calls")) calls(argv[0]);
    else if (!strcmp(part, "other")) other();
    else if (!strcmp(part, "resize")) resize();
    else return 2;
    return 0;
}
