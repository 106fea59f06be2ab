/* Objects that are mapped for reading, and stores that a broker passes. */
#define _GNU_SOURCE
#include "require.h"
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(int to) { MUST(write(to, "x", 1) == 1); }

static void hear(int from) {
    char byte;
    MUST(read(from, &byte, 1) == 1);
}

/* Stores to a page of an object, which is a fault. */
static _Noreturn void store_to(char *chunk) {
    printf("storing\n");
    fflush(stdout);
    *(volatile char *)chunk = 'X';
    printf("stored\n");
    exit(2);
}

static void make(void) {
    MUST(heapo_create("kept"));
    MUST(heapo_tx_begin("kept"));
    char *chunk = heapo_malloc("kept", 16);
    MUST(chunk);
    strcpy(chunk, "hello");
    MUST(heapo_set_prime_node("kept", chunk));
    MUST(heapo_tx_end("kept"));
    MUST(heapo_chmod("kept", 0666)); /* the domain's rights decide */
    MUST(heapo_unmap("kept"));
}

/* The calls that an object mapped for reading allows, and refuses. */
static char *look(void) {
    char *chunk = heapo_get_prime_node("kept");
    MUST(chunk && !strcmp(chunk, "hello"));
    FAILS(heapo_malloc("kept", 8), EACCES);
    FAILS(heapo_calloc("kept", 1, 8), EACCES);
    FAILS(heapo_realloc("kept", chunk, 8), EACCES);
    FAILS(heapo_free("kept", chunk), EACCES);
    FAILS(heapo_set_prime_node("kept", NULL), EACCES);
    FAILS(heapo_tx_begin("kept"), EACCES);
    FAILS(heapo_expand("kept", 1), EACCES);
    FAILS(heapo_shrink("kept", NULL, 0), EACCES);
    MUST(heapo_lock("kept") && heapo_unlock("kept"));
    return chunk;
}

static int count(const char *name, void *context) {
    MUST(!strcmp(name, "kept"));
    ++*(int *)context;
    return 1;
}

/* A store that this process may only read. */
static void granted_to_read(void) {
    int names = 0;
    MUST(heapo_map("kept"));
    look();
    MUST(heapo_list(NULL, count, &names) && names == 1);
    FAILS(heapo_create("more"), EACCES);
    FAILS(heapo_delete("kept"), EACCES);
    FAILS(heapo_chmod("kept", 0666), EACCES);
    FAILS(heapo_persist(heapo_get_prime_node("kept"), 1), EACCES);
    store_to(heapo_get_prime_node("kept"));
}

/* Tries to change a store that this process may only read, past the library. */
static void force(void) {
    MUST(heapo_map("kept"));
    char *chunk = heapo_get_prime_node("kept"), path[32];
    int attacked = 0;
    for (int fd = 3; fd < 64; fd++) {
        struct stat found;
        if (fstat(fd, &found) || !S_ISREG(found.st_mode)) continue;
        sprintf(path, "/proc/self/fd/%d", fd);
        MUST(open(path, O_RDWR) < 0 && ftruncate(fd, 4096) && pwrite(fd, "taken", 6, 0) < 0);
        attacked++;
    }
    MUST(attacked > 0);
    if (!mprotect(chunk - (uintptr_t)chunk % 4096, 4096, PROT_READ | PROT_WRITE)) strcpy(chunk, "taken"); /* its own page */
    FAILS(heapo_persist(chunk, 6), EACCES);
}

/* An object that its rights let this process read and not change. */
static void may_read(void) {
    FAILS(heapo_map("kept"), EACCES);
    MUST(heapo_map_to_read("kept"));
    FAILS(heapo_chmod("kept", 0666), EACCES);
    FAILS(heapo_chown("kept", (unsigned)geteuid(), (unsigned)-1), EACCES);
    store_to(look());
}

/* Neither, by whatever call. */
static void refused(void) {
    FAILS(heapo_map("kept"), EACCES);
    FAILS(heapo_map_to_read("kept"), EACCES);
}

/* The rights of its owner. */
static void owned(const char *mode) {
    MUST(heapo_map("kept") && heapo_malloc("kept", 100));
    FAILS(heapo_chown("kept", 0, (unsigned)-1), EACCES); /* only root gives away */
    MUST(heapo_chmod("kept", (unsigned)strtoul(mode, NULL, 8)));
}

/* Allocates as much as possible, in one object and in many. */
static void leak(void) {
    char name[32];
    int objects = 0;
    MUST(heapo_create("leak"));
    while (heapo_malloc("leak", 30000)) {}
    MUST(errno == EDQUOT && strstr(everbyte_error(), "quota"));
    do sprintf(name, "leak/%d", ++objects);
    while (heapo_create(name));
    MUST(errno == EDQUOT);
    FAILS(heapo_map(name), ENOENT); /* nothing is left of what was refused */
    MUST(heapo_delete("leak") && heapo_create(name));
}

/* A reader in a process of its own, beside a writer who lets the object grow. */
static void beside_a_writer(void) {
    int to_reader[2], to_writer[2], status;
    MUST(!pipe(to_reader) && !pipe(to_writer));
    pid_t reader = fork();
    MUST(reader >= 0);
    if (!reader) {
        hear(to_reader[0]);
        MUST(heapo_map_to_read("kept"));
        look();
        tell(to_writer[1]);
        hear(to_reader[0]);
        MUST(heapo_lock("kept"));
        char *grown = heapo_get_prime_node("kept");
        MUST(grown[0] == 'g' && grown[500000] == 'g');
        MUST(heapo_unlock("kept"));
        store_to(grown + 500000); /* where nothing was when it was mapped */
    }
    make();
    MUST(heapo_map("kept"));
    tell(to_reader[1]);
    hear(to_writer[0]);
    char *grown = heapo_malloc("kept", 600000);
    MUST(grown);
    memset(grown, 'g', 600000);
    MUST(heapo_set_prime_node("kept", grown));
    tell(to_reader[1]);
    MUST(waitpid(reader, &status, 0) == reader && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    MUST(grown[500000] == 'g');
    /* The object is unchanged, and may be mapped either way. */
    MUST(heapo_free("kept", grown) && heapo_unmap("kept") && heapo_map_to_read("kept"));
    FAILS(heapo_malloc("kept", 1), EACCES);
    MUST(heapo_unmap("kept") && heapo_map("kept"));
    strcpy(heapo_malloc("kept", 6), "again");
}

/* The next reader recovers the incomplete change of a killed writer. */
static void after_a_death(void) {
    int to_writer[2], status;
    MUST(!pipe(to_writer));
    pid_t writer = fork();
    MUST(writer >= 0);
    if (!writer) {
        hear(to_writer[0]);
        MUST(heapo_map("kept"));
        char *chunk = heapo_get_prime_node("kept");
        MUST(heapo_tx_begin("kept") && heapo_tx_append("kept", chunk, 8));
        strcpy(chunk, "half");
        heapo_malloc("kept", 100);
        raise(SIGKILL);
    }
    make();
    MUST(heapo_map_to_read("kept"));
    tell(to_writer[1]);
    MUST(waitpid(writer, &status, 0) == writer && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    char *chunk = heapo_get_prime_node("kept");
    MUST(!strcmp(chunk, "half"));
    MUST(heapo_lock("kept"));
    MUST(!strcmp(chunk, "hello"));
    MUST(heapo_unlock("kept"));
    store_to(chunk);
}

/* Becomes another user, of one group and perhaps of another one. */
static void become(char **words, int count) {
    gid_t more = count > 2 ? (gid_t)atoi(words[2]) : 0;
    MUST(!setgroups(count > 2 ? 1 : 0, &more));
    MUST(!setgid((gid_t)atoi(words[1])) && !setuid((uid_t)atoi(words[0])));
}

int main(int count, char **words) {
    MUST(count > 1);
    const char *part = words[1];
    if (count > 3) become(words + 2, count - 2);
    if (!strcmp(part, "make")) make();
    else if (!strcmp(part, "read")) granted_to_read();
    else if (!strcmp(part, "force")) force();
    else if (!strcmp(part, "may-read")) may_read();
    else if (!strcmp(part, "refused")) refused();
    else if (!strncmp(part, "own:", 4)) owned(part + 4);
    else if (!strcmp(part, "leak")) leak();
    else if (!strcmp(part, "beside")) beside_a_writer();
    else if (!strcmp(part, "death")) after_a_death();
    else return 3;
    return 0;
}
