/* An object larger than the memory it may have, through plain pointers. Usage: cold calls | limits
 * | fill | look */
#define _POSIX_C_SOURCE 200809L
#include "require.h"
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

enum { WORDS = 2000, CLUSTERS = 24 };

struct chunk {
    uint64_t number;
    struct chunk *next;
    uint64_t words[WORDS];
};

static void open_large(void) {
    if (heapo_map("large"))
        MUST(heapo_unmap("large"));
    else
        MUST(heapo_create("large") && heapo_unmap("large"));
    if (!heapo_set_resident("large", CLUSTERS))
        MUST(errno == EINVAL && strstr(everbyte_error(), "`file`")); /* on a backend without a limit */
    MUST(heapo_map("large"));
}

static struct chunk *add(uint64_t number) {
    struct chunk *chunk = heapo_malloc("large", sizeof *chunk);
    if (!chunk)
        return NULL;
    chunk->number = number;
    chunk->next = heapo_get_prime_node("large");
    for (uint64_t i = 0; i < WORDS; i++)
        chunk->words[i] = number * WORDS + i;
    MUST(heapo_persist(chunk, sizeof *chunk) && heapo_set_prime_node("large", chunk));
    return chunk;
}

static uint64_t look(void) {
    uint64_t count = 0;
    struct chunk *first = heapo_get_prime_node("large");
    for (struct chunk *chunk = first; chunk; chunk = chunk->next, count++)
        for (uint64_t i = 0; i < WORDS; i++)
            MUST(chunk->words[i] == chunk->number * WORDS + i);
    MUST(count == (first ? first->number : 0));
    return count;
}

static void fill(void) {
    for (uint64_t number = look() + 1; add(number); number++) {
        printf("%llu\n", (unsigned long long)number);
        fflush(stdout);
    }
}

static void calls(void) {
    FAILS(heapo_set_resident("none", CLUSTERS), ENOENT);
    FAILS(heapo_set_quota("none", 1), ENOENT);
    open_large();
    FAILS(heapo_set_resident("large", CLUSTERS), EBUSY);
    uint64_t number = 0;
    while (number < 300) /* three times the memory that it may have */
        MUST(add(++number));
    MUST(look() == 300);
    MUST(heapo_set_quota("large", 100));
    while (add(number + 1))
        number++;
    MUST(errno == EDQUOT && strstr(everbyte_error(), "quota is 100"));
    MUST(look() == number && heapo_set_quota("large", 0) && add(++number));
    MUST(heapo_unmap("large"));
    FAILS(heapo_set_resident("large", 1), EINVAL);
    MUST(heapo_set_resident("large", 0) && heapo_map("large") && look() == number);
}

static sigjmp_buf back;
static void caught(int signal) { siglongjmp(back, signal); }

/* Whether a load from an address raises a fault in the program's own handler. */
static int faults(volatile char *byte) {
    if (sigsetjmp(back, 1)) return 1;
    (void)*byte;
    return 0;
}

/* The header's rules on system calls with pointers to cold bytes, and on a handler of the program's
 * own. */
static void limits(void) {
    static struct chunk *chunks[300];
    int pipes[2], refused = 0;
    uint64_t word;
    MUST(signal(SIGSEGV, caught) != SIG_ERR && !pipe(pipes));
    open_large();
    for (uint64_t i = 0; i < 300; i++) MUST(chunks[i] = add(i + 1));
    MUST(faults((char *)8) && look() == 300 && faults((char *)64) && look() == 300);
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t *last = &chunks[i]->words[WORDS - 1];
        if (write(pipes[1], last, 8) < 0) {
            MUST(errno == EFAULT && *last && write(pipes[1], last, 8) == 8); /* now that it was touched */
            refused++;
        }
        MUST(read(pipes[0], &word, 8) == 8 && word == (i + 1) * WORDS + WORDS - 1);
    }
    MUST(refused > 0);
}

int main(int count, char **words) {
    const char *part = count > 1 ? words[1] : "";
    if (!strcmp(part, "calls")) return calls(), 0;
    if (!strcmp(part, "limits")) return limits(), 0;
    open_large();
    if (!strcmp(part, "fill"))
        fill();
    printf("%llu\n", (unsigned long long)look());
    return 0;
}
