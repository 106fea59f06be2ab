/* Logs and restarts, tried call by call. Usage: log PART | log fill | log look */
#define MNEMOSYNE_NAMES
#include "require.h"
#include <everbyte/mnemosyne.h>
#include <pthread.h>

enum { MANY = 300 };

/* Record n is n + 1 words: n, n + 1, ... */
static void check(const uint64_t *words, size_t count, void *context) {
    uint64_t *next = context;
    if (*next == 0) *next = words[0];
    MUST(words[0] == *next && count == words[0] % 70 + 1);
    for (size_t at = 1; at < count; at++) MUST(words[at] == words[0] + at);
    ++*next;
}

static int append(mnemosyne_log *log, uint64_t number) {
    uint64_t words[70];
    for (size_t at = 0; at < 70; at++) words[at] = number + at;
    return log_append(log, words, number % 70 + 1);
}

static void calls(void) {
    uint64_t next = 0, word = 1;
    static uint64_t much[9000];
    FAILS(log_create("a\nb", 4096, 0, NULL, NULL), EINVAL);
    FAILS(log_create(NULL, 4096, 0, NULL, NULL), EINVAL);
    FAILS(log_create("log", 4096, 64, NULL, NULL), EINVAL);
    FAILS(log_append(NULL, &word, 1), EINVAL);
    for (int form = 0; form < 2; form++) {
        const char *name = form ? "base" : "torn";
        mnemosyne_log *log = log_create(name, 65536, form ? MNEMOSYNE_LOG_BASE : 0, check, &next);
        MUST(log && next == 0);
        FAILS(log_create(name, 65536, 0, NULL, NULL), EBUSY);
        FAILS(log_append(log, NULL, 1), EINVAL);
        FAILS(log_append(log, much, 9000), E2BIG);
        uint64_t number = 1;
        while (append(log, number)) number++;
        MUST(errno == ENOSPC && number > 150);
        MUST(log_flush(log) && log_flush(log));
        log_close(log), log_close(NULL);
        MUST(log = log_create(name, 1, 0, check, &next));
        MUST(next == number);
        MUST(log_truncate(log) && append(log, 5) && append(log, 6));
        log_close(log); /* 5 and 6 were never flushed */
        next = 0;
        MUST(log = log_create(name, 1, 0, check, &next));
        MUST(next == 0 || next == 6 || next == 7);
        MUST(log_truncate(log) && append(log, 9) && log_flush(log));
        log_close(log), next = 0;
        MUST(log = log_create(name, 1, MNEMOSYNE_LOG_EMPTY, check, &next));
        MUST(next == 10);
        log_close(log), next = 0;
        MUST(log = log_create(name, 1, 0, check, &next));
        MUST(next == 0);
        log_close(log);
    }
    MUST(heapo_create("object"));
    FAILS(log_create("object", 4096, 0, NULL, NULL), EPERM);
}

static void *truncate_all(void *log) {
    for (int i = 0; i < MANY; i++) MUST(log_truncate(log));
    return NULL;
}

/* One thread appends while another truncates; the log holds a hundredth of what passes through
 * it. */
static void threads(void) {
    mnemosyne_log *log = log_create("threads", 16384, MNEMOSYNE_LOG_WAIT, NULL, NULL);
    pthread_t thread;
    MUST(log && !pthread_create(&thread, NULL, truncate_all, log));
    for (uint64_t number = 1; number < 1000; number++) {
        MUST(append(log, number));
        if (number % 3 == 0) MUST(log_flush(log) && log_truncate(log));
    }
    MUST(!pthread_join(thread, NULL) && log_flush(log));
    log_close(log);
}

static int order[3], ran;
static void hook(void *context) {
    order[ran++] = *(int *)context;
    mnemosyne_restart(); /* as a transaction inside it would */
}

static void restart(void) {
    static int numbers[3] = {7, 8, 9};
    FAILS(mnemosyne_at_restart(NULL, NULL), EINVAL);
    MUST(mnemosyne_at_restart(hook, &numbers[0]) && mnemosyne_at_restart(hook, &numbers[1]) && ran == 0);
    mnemosyne_restart();
    MUST(ran == 2 && order[0] == 7 && order[1] == 8);
    mnemosyne_restart();
    MUST(ran == 2 && mnemosyne_at_restart(hook, &numbers[2]));
    mnemosyne_restart();
    MUST(ran == 3 && order[2] == 9);
}

pstatic uint64_t dropped; /* the last record that was truncated, at least */

/* Appends records until it is killed, and prints each settled one. */
static void fill(void) {
    uint64_t next = 0;
    mnemosyne_log *log = log_create("kill", 1 << 20, 0, check, &next);
    for (uint64_t number = next ? next : dropped + 1; MUST(log), 1; number++) {
        if (number % 16 == 0) {
            if (number % 32 == 0) {
                MUST(wtstore(&dropped, number - 1));
            } else {
                store(&dropped, number - 1);
                MUST(flush(&dropped));
            }
            MUST(fence() && log_truncate(log));
        }
        MUST(append(log, number) && log_flush(log));
        printf("%llu\n", (unsigned long long)number);
        fflush(stdout);
    }
}

/* The number of the last record. */
static void look(void) {
    uint64_t next = 0;
    MUST(log_create("kill", 1 << 20, 0, check, &next));
    printf("%llu\n", (unsigned long long)(next ? next - 1 : dropped));
}

int main(int count, char **words) {
    const char *part = count > 1 ? words[1] : "";
    if (!strcmp(part, "calls")) return calls(), 0;
    if (!strcmp(part, "threads")) return threads(), 0;
    if (!strcmp(part, "restart")) return restart(), 0;
    if (!strcmp(part, "fill")) return fill(), 0;
    if (!strcmp(part, "look")) return look(), 0;
    return 2;
}
