/* Bodies that do not end by returning. Arguments: the kind of end, or "look"; each run prints the
 * expected message. */
#define _GNU_SOURCE
#include "everbyte/patomic.h"
#include "everbyte/atomically.h"
#include "require.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

pstatic long kept, twin;
pstatic void *block;
pstatic char lines[128] __attribute__((aligned(64)));
static long plain;
static jmp_buf out;
static sigjmp_buf fault_out;
static int is_child;
long *nowhere = (long *)16; /* not static: GCC must not know it */

static int raise_all(void *by) {
    TXW(&kept, TXR(&kept) + (long)by);
    TXW(&twin, TXR(&twin) + (long)by);
    TXW(&plain, TXR(&plain) + (long)by);
    return 1;
}

static void *one = (void *)1L;

/* longjmp, and the next block. */

static int leaves(void *unused) {
    raise_all(one);
    longjmp(out, 1);
    return unused == NULL;
}

static void leave(void) {
    if (!setjmp(out)) everbyte_atomically(leaves, NULL);
}

static __attribute__((noinline)) int deeper(int depth) {
    volatile char room[200];
    memset((char *)room, depth, sizeof room);
    return depth ? deeper(depth - 1) + room[7] : everbyte_atomically(raise_all, one);
}

static int leaves_inner(void *unused) {
    (void)unused;
    raise_all(one);
    leave();
    return 1;
}

static __attribute__((noinline)) void stores_nowhere(void) {
    patomic {
        kept++;
        *nowhere = 1;
    }
}

static volatile int jumps = 1;

__attribute__((transaction_pure, noinline)) static void jump(void) {
    if (jumps) siglongjmp(fault_out, 1);
}

static __attribute__((noinline)) void block_left(void) {
    patomic {
        kept++;
        jump();
        twin++;
    }
}

static __attribute__((noinline)) int block_left_below(int depth) {
    volatile char room[200];
    memset((char *)room, depth, sizeof room);
    if (depth) return block_left_below(depth - 1) + room[7];
    block_left();
    return 0;
}

static __attribute__((noinline)) void leave_below(void) {
    if (!sigsetjmp(fault_out, 1)) block_left_below(3);
}

static __attribute__((noinline)) void small_block(void) {
    patomic { kept++, twin++; }
}

static __attribute__((noinline)) void twice(void (*run)(void)) {
    for (volatile int round = 0; round < 2; round++)
        if (!sigsetjmp(fault_out, 1)) run();
}

static int exits_in_fault;

static void faults(int signal) {
    (void)signal;
    if (exits_in_fault) exit(0);
    siglongjmp(fault_out, 1);
}

static int loads_nothing(void *unused) {
    (void)unused;
    raise_all(one);
    return (int)TXR((long *)16);
}

static void load_nothing(void) {
    everbyte_atomically(loads_nothing, NULL);
}

/* A thread that ends. */

void _ITM_addUserUndoAction(void (*run)(void *), void *with);

static int undone;

static void undo(void *unused) {
    (void)unused;
    undone++;
}

/* The stack of a thread that ends is not restored: the code that ends the thread runs on it. */
#define MANY 256
static long *of_thread;

static int exits(void *unused) {
    raise_all(one);
    for (long at = 0; at < MANY; at++) TXW(&of_thread[at], at);
    _ITM_addUserUndoAction(undo, NULL);
    TXALLOCATE(100, &block);
    pthread_exit(NULL);
    return unused == NULL;
}

static int is_cancelled(void *ready) {
    raise_all(one);
    everbyte_atomically(raise_all, one);
    *(volatile int *)ready = 1;
    for (;;) pause();
    return 1;
}

static void *thread(void *ready) {
    long mine[MANY];
    memset(mine, 0x55, sizeof mine);
    of_thread = mine;
    everbyte_atomically(ready ? is_cancelled : exits, ready);
    return NULL;
}

static void ends_of_threads(void) {
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    MUST(kept == 0 && twin == 0 && plain == 0 && block == NULL && undone == 1);
    volatile int ready = 0;
    pthread_create(&other, NULL, thread, (void *)&ready);
    while (!ready) usleep(1000);
    pthread_cancel(other);
    pthread_join(other, NULL);
    MUST(kept == 0 && twin == 0 && plain == 0 && block == NULL);
    MUST(everbyte_atomically(raise_all, one) && kept == 1 && twin == 1 && plain == 1);
}

/* A handler. */

static volatile sig_atomic_t handled;

static void handler(int signal) {
    (void)signal;
    patomic { kept++; }
    handled++;
}

static void interrupted(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (;;) patomic {
            for (int time = 0; time < 64; time++) twin++;
        }
}

/* The first block of a thread registers a function for fork; a signal arrives meanwhile. */

static volatile sig_atomic_t interrupts_first;

int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *object) {
    if (interrupts_first) raise(SIGUSR1);
    int (*real)(void (*)(void), void (*)(void), void (*)(void), void *);
    void *next = dlsym(RTLD_NEXT, "__register_atfork");
    memcpy(&real, &next, sizeof real); /* ISO C has no conversion */
    return real(before, parent, child, object);
}

static void interrupted_first(void) {
    signal(SIGUSR1, handler);
    alarm(10); /* ends a block that waits for itself */
    interrupts_first = 1;
    patomic { twin++; }
}

/* fork. */

static int forks(void *unused) {
    (void)unused;
    raise_all(one);
    is_child = fork() == 0;
    if (is_child) alarm(10);
    raise_all(one);
    return 1;
}

static int only_forks(void *with) {
    is_child = fork() == 0;
    return !with;
}

static void must_be_the_child_of_a_fork(int answer) {
    MUST(!answer && errno == EPERM && strstr(everbyte_error(), "child of fork"));
    errno = 0;
    MUST(!everbyte_atomically(raise_all, one) && errno == EPERM && strstr(everbyte_error(), "child of fork"));
    exit(7);
}

static void waits(int expected) {
    int status;
    MUST(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

static void forked(void) {
    errno = 0;
    int answer = everbyte_atomically(forks, NULL);
    if (is_child) {
        MUST(plain == 0);
        must_be_the_child_of_a_fork(answer);
    }
    waits(7);
    MUST(answer && kept == 2 && twin == 2 && plain == 2);
    for (long with = 0; with < 2; with++) {
        answer = everbyte_atomically(only_forks, (void *)with);
        if (is_child) must_be_the_child_of_a_fork(answer);
        waits(7);
        MUST(answer == !with);
    }
    MUST(everbyte_atomically(raise_all, one) && kept == 3);
    if (fork() == 0) {
        patomic { kept++; } /* ends the process */
        _exit(0);
    }
    int status;
    MUST(wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* Places of pointers. */

static void pointers(void) {
    long local = 0, got, again, odd;
    patomic {
        void *mine = NULL;
        got = pmalloc(32, &mine) != NULL;
        local = mine != NULL;
    }
    MUST(!got && !local && errno == EINVAL && strstr(everbyte_error(), "not persistent memory"));
    errno = 0;
    patomic { odd = pmalloc(32, (char *)&block + 1) != NULL; }
    MUST(!odd && errno == EINVAL && strstr(everbyte_error(), "multiple of 8"));
    patomic { pmalloc(32, &block); }
    void *copy = block;
    errno = 0;
    patomic { again = pfree(&copy); }
    MUST(block && copy == block && !again && errno == EINVAL && strstr(everbyte_error(), "not persistent memory"));
    patomic { again = pfree(&block); }
    MUST(again && !block);
}

int main(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "look") == 0) {
        printf("%ld %ld %s\n", kept, twin, block ? "a block" : "no block");
        return 0;
    }
    signal(SIGSEGV, faults);
    if (strcmp(word, "jump") == 0) leave(), leave();
    if (strcmp(word, "jump-deeper") == 0) leave(), deeper(3);
    if (strcmp(word, "jump-inner") == 0) everbyte_atomically(leaves_inner, NULL);
    if (strcmp(word, "jump-block") == 0) twice(stores_nowhere);
    if (strcmp(word, "jump-block-again") == 0) twice(block_left);
    if (strcmp(word, "jump-block-below") == 0) leave_below(), small_block();
    exits_in_fault = strcmp(word, "fault-exit") == 0;
    if (exits_in_fault) load_nothing();
    if (strcmp(word, "fault") == 0) twice(load_nothing);
    if (strcmp(word, "handler") == 0) interrupted();
    if (strcmp(word, "handler-first") == 0) interrupted_first();
    if (strcmp(word, "straddle") == 0) {
        memset(lines + 60, 7, 8); /* the end of a line and the begin of the next */
        kept = twin = 1;
        MUST(mnemosyne_flush(lines + 60, 8) && mnemosyne_flush(&kept, 8) && mnemosyne_flush(&twin, 8) && mnemosyne_fence());
    }
    if (strcmp(word, "look-straddle") == 0) return !(lines[60] == 7 && lines[63] == 7 && lines[64] == 7 && lines[67] == 7);
    if (strcmp(word, "mixed") == 0) {
        patomic { kept = twin = 1, block = NULL; }
        MUST(pmalloc(100, &block)); /* after a block on the same word, whose record may still be in the log */
    }
    if (strcmp(word, "threads") == 0) return ends_of_threads(), 0;
    if (strcmp(word, "fork") == 0) return forked(), 0;
    if (strcmp(word, "pointers") == 0) return pointers(), 0;
    raise(SIGKILL); /* settled values must exist */
    return 0;
}
