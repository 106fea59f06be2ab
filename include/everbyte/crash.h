/* Programs before the crash explorer: `everbyte crash --store S --run './program' --check
 * './program look'` runs a program, makes the images of the store that a crash may leave at any
 * moment of it, and runs the check on each. The program says here what it promises, the check asks
 * what had been promised. Without an explorer these calls do nothing.
 *
 *     everbyte_crash_begin("insert 7");
 *     ... heapo_tx_end("list") ...
 *     everbyte_crash_acked();
 *
 * THREADS: one; a program with more is refused while the explorer watches it. A system call that
 * stores into the store's memory, read() for one, fails then with EFAULT. */
#ifndef EVERBYTE_CRASH_H
#define EVERBYTE_CRASH_H

#ifdef __cplusplus
extern "C" {
#endif

/* An operation begins: from here on a crash may leave what it does. The name appears in failures.
 * Returns 1; 0 for NULL. */
int everbyte_crash_begin(const char *name);

/* The operation that began last is acknowledged: no crash from here on may lose it. */
void everbyte_crash_acked(void);

/* In a check: recovery is over. What the check stores from here on, to see whether the thing still
 * works, is not part of the crash inside recovery that is explored next. */
void everbyte_crash_recovered(void);

/* In a check: how many operations had begun, and how many had been acknowledged, before the crash;
 * -1 without an explorer. */
long everbyte_crash_seen_begun(void);
long everbyte_crash_seen_acked(void);

#ifdef __cplusplus
}
#endif
#endif
