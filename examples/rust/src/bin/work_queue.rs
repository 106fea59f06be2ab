//! A work queue between threads: jobs that were queued are done once, in this run or a later one.
//!
//! `work_queue STORE add COUNT` queues numbers; `work_queue STORE work THREADS [STOP]` squares
//! them, and stops after STOP jobs as if the machine had gone away.
//!
//! A worker takes a job, does it and books the result in one transaction, so a job is never lost
//! and never done twice.

#![forbid(unsafe_code)]

use everbyte::{Journal, MemPool, PMutex, PSafe, PVec, Pool, pool};
use everbyte_examples::{Outcome, arguments, store};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

pool!(Queue);

#[derive(PSafe)]
#[repr(C)]
struct Jobs<P: MemPool> {
    waiting: PMutex<PVec<u64, P>, P>,
    done: PMutex<Done, P>,
}

#[derive(PSafe, Clone, Copy, Default)]
#[repr(C)]
struct Done {
    queued: u64,
    count: u64,
    sum: u64,
}

impl<P: MemPool> Jobs<P> {
    fn add(&self, count: u64, j: &Journal<P>) {
        // Each thread locks `waiting` before `done`: two orders could deadlock.
        let mut waiting = self.waiting.lock(j);
        let mut done = self.done.lock(j);
        for _ in 0..count {
            done.queued += 1;
            waiting.push(done.queued, j);
        }
    }

    fn work(&self, j: &Journal<P>) -> bool {
        let Some(job) = self.waiting.lock(j).pop(j) else { return false };
        let mut done = self.done.lock(j);
        done.count += 1;
        done.sum += job * job;
        true
    }
}

fn main() -> Outcome {
    let usage = "work_queue STORE add COUNT | work THREADS [STOP]";
    let (path, words) = arguments(usage)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let store = store(path)?;
    let jobs = Queue::open_or_create::<Jobs<Queue>>(&store, "jobs", |_| Jobs {
        waiting: PMutex::new(PVec::new()),
        done: PMutex::new(Done::default()),
    })?;
    match words[..] {
        ["add", count] => {
            let count = count.parse()?;
            jobs.tx(|j, jobs| jobs.add(count, j))?;
        }
        ["work", threads] => work(&jobs, threads.parse()?, i64::MAX)?,
        ["work", threads, stop] => work(&jobs, threads.parse()?, stop.parse()?)?,
        _ => return Err(format!("usage: {usage}").into()),
    }
    let (waiting, done) = jobs.tx(|j, jobs| (jobs.waiting.lock(j).len(), *jobs.done.lock(j)))?;
    println!("{} queued, {waiting} waiting, {} done, sum {}", done.queued, done.count, done.sum);
    Ok(())
}

fn work(jobs: &everbyte::Root<Jobs<Queue>, Queue>, threads: usize, stop: i64) -> everbyte::Result<()> {
    let left = AtomicI64::new(stop);
    thread::scope(|s| {
        let worker = || -> everbyte::Result<()> {
            while left.fetch_sub(1, Ordering::Relaxed) > 0 && jobs.tx(|j, jobs| jobs.work(j))? {}
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|_| s.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}
