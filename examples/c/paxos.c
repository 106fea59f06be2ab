/* The memory of a Paxos acceptor: what it has promised and accepted must never be forgotten, and is
 * only ever appended to.
 *
 *     cc paxos.c -leverbyte -o paxos
 *     ./paxos promise 7 && ./paxos accept 7 42 && ./paxos promise 5
 *
 * Each run reads the log and so learns what earlier ones answered; then it answers once more. An
 * answer counts when its record is flushed, not before. */
#include <everbyte/mnemosyne.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMISE, ACCEPT };

struct acceptor {
    uint64_t promised, accepted, value;
};

/* The change of a record: PROMISE, ballot; or ACCEPT, ballot, value. */
static void apply(const uint64_t *record, size_t count, void *context) {
    struct acceptor *acceptor = context;
    acceptor->promised = record[1];
    if (record[0] == ACCEPT && count == 3) acceptor->accepted = record[1], acceptor->value = record[2];
}

int main(int count, char **words) {
    struct acceptor acceptor = {0, 0, 0};
    mnemosyne_log *log = log_create("paxos", 1 << 20, 0, apply, &acceptor);
    const int accept = count == 4 && strcmp(words[1], "accept") == 0;
    if (!log || !(accept || (count == 3 && strcmp(words[1], "promise") == 0))) {
        fprintf(stderr, log ? "usage: paxos promise BALLOT | accept BALLOT VALUE\n" : "paxos: %s\n", everbyte_error());
        return 2;
    }
    const uint64_t ballot = strtoull(words[2], NULL, 10);
    const uint64_t record[] = {accept ? ACCEPT : PROMISE, ballot, accept ? strtoull(words[3], NULL, 10) : 0};
    if (accept ? ballot < acceptor.promised : ballot <= acceptor.promised) {
        printf("no: promised %llu\n", (unsigned long long)acceptor.promised);
        return 1;
    }
    if (!log_append(log, record, accept ? 3 : 2) || !log_flush(log)) {
        fprintf(stderr, "paxos: %s\n", everbyte_error());
        return 2;
    }
    apply(record, accept ? 3 : 2, &acceptor);
    printf("yes: accepted %llu in ballot %llu\n", (unsigned long long)acceptor.value,
           (unsigned long long)acceptor.accepted);
    log_close(log);
    return 0;
}
