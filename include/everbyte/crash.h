/* The interface between a program and the crash explorer. `everbyte crash --store S --run
 * './program' --check './program look'` runs a program, generates the images of the store that a
 * crash may leave at any moment of the run, and runs the check on each image. The program
 * reports its promises by these calls; the check asks for them. Without an explorer the calls do
 * nothing.
 *
 *     everbyte_crash_begin("insert 7");
 *     ... heapo_tx_end("list") ...
 *     everbyte_crash_acked();
 *
 * THREADS: one; the explorer refuses a program with more. While the explorer watches, a system
 * call that stores into the store's memory, such as read(), fails with EFAULT. */
#ifndef EVERBYTE_CRASH_H
#define EVERBYTE_CRASH_H

#ifdef __cplusplus
extern "C" {
#endif

/* Begins an operation: a crash from here on may leave its effects. Failures show the name.
 * Returns 1; 0 for NULL, with `errno` EINVAL. */
int everbyte_crash_begin(const char *name);

/* Acknowledges the operation that began last: a crash from here on must not lose it. */
void everbyte_crash_acked(void);

/* In a check: reports the end of recovery. Later stores of the check, such as a trial insertion,
 * are not part of the recovery that the explorer crashes next. */
void everbyte_crash_recovered(void);

/* In a check: return the number of operations that had begun, and that were acknowledged, before
 * the crash; -1 without an explorer. */
long everbyte_crash_seen_begun(void);
long everbyte_crash_seen_acked(void);

#ifdef __cplusplus
}
#endif
#endif
