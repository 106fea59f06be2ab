//! Forked children that try crash images, and the pipe they answer through.
//!
//! A child is a copy of this process with one thread: the one that forked. It inherits the stage by
//! copy-on-write, works through its jobs, sends one frame for each, and leaves by `_exit`, so that
//! nothing of the parent (buffers, temporary files, test harness) is finished twice. A child that
//! crashes, aborts or hangs is an answer too.
//!
//! Invariants
//!   CHILD-1  Between fork and exit a child takes no lock that another thread of the parent may
//!            have held: it prints nothing (the panic hook sends the text through the pipe), and
//!            the allocator is made safe by the C library's fork handlers. Should one hang all the
//!            same, the trial is repeated before it is believed.
//!   CHILD-2  Frames are whole: tag, length, payload. A torn last frame is the death of the child.
//!
//! Threads: any thread may fork; the pipe is close-on-exec and read by that thread.

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether this process is such a child.
static IN_CHILD: AtomicBool = AtomicBool::new(false);
/// The child's end of the pipe.
static PIPE: Mutex<Option<File>> = Mutex::new(None);

const PASSED: u8 = b'k';
const FAILED: u8 = b'f';
const PANIC: u8 = b'p';
const END: u8 = b'e';
const THREADS: u8 = b't';
const ALIVE: u8 = b'a';

/// The output of a finished child.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Payloads of the jobs that passed, from the first on.
    pub passed: Vec<Vec<u8>>,
    /// Why the job after those did not pass; `None` if all did.
    pub failure: Option<Death>,
    /// A job left threads running in the child: later jobs of the same child may have seen their
    /// stores.
    pub threads: bool,
}

/// How a job failed.
#[derive(Debug)]
pub(crate) enum Death {
    /// The job's own answer.
    Said(Vec<u8>),
    /// The child died: signal or exit status, and the text of its last panic.
    Died(String),
    /// No answer came for too long.
    Hung,
}

pub(crate) struct Child {
    pid: Pid,
    pipe: File,
    buffer: Vec<u8>,
    /// Time without an answer while this process listened.
    silent: Duration,
    panic: Option<String>,
    outcome: Outcome,
}

impl Child {
    /// Forks a child that runs jobs `0..count`, stopping at the first that fails.
    pub(crate) fn spawn(count: usize, job: &dyn Fn(usize) -> Result<Vec<u8>, Vec<u8>>) -> io::Result<Child> {
        install_hook();
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        let parent = rustix::process::getpid();
        // SAFETY: the child runs on this thread's copied stack, touches only memory (copied, none
        // of it shared but the pipe), takes no inherited lock (CHILD-1), and never returns from
        // this function.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                run_child(File::from(theirs), parent, count, job);
            }
            pid => {
                let pid = Pid::from_raw(pid).expect("fork answers with a process id");
                let outcome = Outcome { passed: Vec::new(), failure: None, threads: false };
                let pipe = File::from(ours);
                Ok(Child { pid, pipe, buffer: Vec::new(), silent: Duration::ZERO, panic: None, outcome })
            }
        }
    }

    /// Reads what is there; `true` when the child is finished, however it ended.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let count = self.pipe.read(&mut bytes).unwrap_or(0);
        self.buffer.extend_from_slice(&bytes[..count]);
        self.silent = Duration::ZERO;
        while let Some((tag, payload, rest)) = frame(&self.buffer) {
            let payload = payload.to_vec();
            self.buffer = rest.to_vec();
            match tag {
                PASSED => {
                    self.panic = None; // a panic that the check caught
                    self.outcome.passed.push(payload);
                }
                FAILED => self.outcome.failure = Some(Death::Said(payload)),
                PANIC => self.panic = Some(String::from_utf8_lossy(&payload).into_owned()),
                THREADS => self.outcome.threads = true,
                ALIVE => {}
                END => {
                    let _ = waitpid(Some(self.pid), WaitOptions::empty());
                    return true;
                }
                _ => unreachable!("CHILD-2"),
            }
        }
        if count == 0 {
            let status = waitpid(Some(self.pid), WaitOptions::empty()).ok().flatten().map(|(_, status)| status);
            let how = match status {
                Some(status) if status.signaled() => {
                    format!("killed by signal {}", status.terminating_signal().unwrap_or(0))
                }
                Some(status) => format!("exited with status {}", status.exit_status().unwrap_or(-1)),
                None => "vanished".into(),
            };
            let panic = self.panic.take().map(|text| format!(" after: {text}")).unwrap_or_default();
            self.outcome.failure = Some(Death::Died(format!("the process was {how}{panic}")));
        }
        count == 0
    }

    fn kill(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }

    /// Ends a child whose answer is not needed.
    pub(crate) fn cancel(mut self) {
        self.kill();
    }
}

/// How long one listens before looking who has been silent.
const TICK: Duration = Duration::from_millis(50);

/// Waits for one of `children` to finish and takes it out; `timeout` is how long each may be
/// silent. Time in which this process itself was stopped does not count: its children were, too.
pub(crate) fn wait_any<T>(children: &mut Vec<(Child, T)>, timeout: Duration) -> (Outcome, T) {
    assert!(!children.is_empty(), "there is no child to wait for");
    loop {
        let mut fds: Vec<PollFd<'_>> =
            children.iter().map(|(child, _)| PollFd::new(&child.pipe, PollFlags::IN)).collect();
        let begun = Instant::now();
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as _ };
        let _ = poll(&mut fds, Some(&tick));
        let listened = begun.elapsed().min(2 * TICK);
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        for (index, ready) in ready.into_iter().enumerate() {
            let child = &mut children[index].0;
            child.silent += listened;
            let hung = !ready && child.silent > timeout;
            if hung {
                child.kill();
                child.outcome.failure = Some(Death::Hung);
            }
            if ready && IN_CHILD.load(Ordering::Relaxed) {
                send(ALIVE, &[]); // one image of the parent is many of this process's children
            }
            if hung || (ready && child.read()) {
                let (child, job) = children.remove(index);
                return (child.outcome, job);
            }
        }
    }
}

fn frame(buffer: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = buffer.split_first()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (payload, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((tag, payload, rest))
}

fn send(tag: u8, payload: &[u8]) {
    let mut frame = vec![tag];
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    frame.extend_from_slice(payload);
    if let Some(pipe) = PIPE.lock().as_mut() {
        // A parent that is gone needs no answer.
        let _ = pipe.write_all(&frame);
    }
}

fn run_child(pipe: File, parent: Pid, count: usize, job: &dyn Fn(usize) -> Result<Vec<u8>, Vec<u8>>) -> ! {
    IN_CHILD.store(true, Ordering::Relaxed);
    *PIPE.lock() = Some(pipe);
    // A parent that is killed takes its children along, so that none spins on unheard.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if rustix::process::getppid() == Some(parent) {
        for index in 0..count {
            match job(index) {
                Ok(payload) => send(PASSED, &payload),
                Err(payload) => {
                    send(FAILED, &payload);
                    break;
                }
            }
            if threads() > 1 {
                send(THREADS, &[]); // all its jobs are run again, each in a child of its own
                break;
            }
        }
        send(END, &[]);
    }
    // SAFETY: ends this process at once; nothing of it is needed, and nothing of the parent's may
    // be run again.
    unsafe { libc::_exit(0) }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Panics of children travel through the pipe; all others go where they went before.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IN_CHILD.load(Ordering::Relaxed) {
                send(PANIC, info.to_string().as_bytes());
            } else {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_for(timeout: Duration, count: usize, job: &dyn Fn(usize) -> Result<Vec<u8>, Vec<u8>>) -> Outcome {
        let mut children = vec![(Child::spawn(count, job).unwrap(), ())];
        wait_any(&mut children, timeout).0
    }

    /// For longer than any answer takes.
    fn run(count: usize, job: &dyn Fn(usize) -> Result<Vec<u8>, Vec<u8>>) -> Outcome {
        run_for(Duration::from_secs(600), count, job)
    }

    #[test]
    fn jobs_answer_in_order_until_one_fails() {
        let outcome = run(3, &|index| if index < 2 { Ok(vec![index as u8]) } else { Err(b"no".to_vec()) });
        assert_eq!(outcome.passed, [vec![0], vec![1]]);
        assert!(matches!(outcome.failure, Some(Death::Said(text)) if text == b"no"));
    }

    #[test]
    fn a_child_that_aborts_hangs_or_leaves_threads_is_told_apart() {
        let abort = run(1, &|_| {
            let _ = std::panic::catch_unwind(|| panic!("last words"));
            std::process::abort()
        });
        let Some(Death::Died(how)) = abort.failure else { panic!("{abort:?}") };
        assert!(how.contains("signal 6") && how.contains("last words"), "{how}");
        let hang = run_for(Duration::from_millis(300), 1, &|_| loop {
            std::thread::sleep(Duration::from_secs(1));
        });
        assert!(matches!(hang.failure, Some(Death::Hung)), "{hang:?}");
        let threads = run(1, &|_| {
            std::thread::spawn(|| std::thread::sleep(Duration::from_secs(9)));
            Ok(vec![])
        });
        assert!(threads.threads && threads.failure.is_none(), "{threads:?}");
        let later = run(3, &|index| {
            if index == 1 {
                std::thread::spawn(|| std::thread::sleep(Duration::from_secs(9)));
            }
            Ok(vec![])
        });
        assert!(later.threads && later.failure.is_none() && later.passed.len() == 2, "{later:?}");
    }
}
