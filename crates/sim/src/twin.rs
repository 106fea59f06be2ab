//! Model twins: the program changes a plain model beside the real thing, and every crash image must
//! equal the model after some of the operations.
//!
//! Invariants
//!   TWIN-1  Operation `n` of the oracle is change `n` of the list: both are numbered under one
//!           lock.

use crate::oracle::{Op, Oracle, Seen};
use crate::{Explorer, Failure, Image, Report};
use everbyte_media::Media;
use parking_lot::Mutex;
use std::fmt::Debug;

/// Operations that may be missing after a crash besides those that had not been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing: the state is that after the first k operations, k at least the number acknowledged.
    InOrder,
    /// Each unacknowledged operation is there or not, independent of the others: operations of
    /// several threads. At most 12 may be pending at once.
    Free,
}

type Change<M> = Box<dyn Fn(&mut M) + Send + Sync>;

/// One run of the program: the model's state before it, and what each operation does to it.
struct Run<M> {
    initial: M,
    changes: Vec<Change<M>>,
    is_second: bool,
}

/// The recorded program's voice where a model listens: each operation comes with what it does to
/// the model.
pub struct Twin<'t, M> {
    oracle: &'t Oracle,
    run: &'t Mutex<Run<M>>,
}

impl<M: Clone> Twin<'_, M> {
    /// The contents of the model now, after all operations that have begun. A program that may run
    /// on a crash image chooses its operations by it.
    pub fn model(&self) -> M {
        let run = self.run.lock();
        let mut model = run.initial.clone();
        run.changes.iter().for_each(|change| change(&mut model));
        model
    }
}

impl<M> Twin<'_, M> {
    /// Whether the program runs on what a crash has left, not on the image that it was given.
    pub fn is_second(&self) -> bool {
        self.run.lock().is_second
    }

    /// An operation begins that does `change` to the model.
    pub fn begin(&self, name: impl Into<String>, change: impl Fn(&mut M) + Send + Sync + 'static) -> Op {
        let mut run = self.run.lock(); // TWIN-1
        run.changes.push(Box::new(change));
        self.oracle.begin(name)
    }

    /// The operation has been acknowledged.
    pub fn acked(&self, op: Op) {
        self.oracle.acked(op);
    }

    /// One operation from begin to acknowledgement, on the thread that [`Threads`](crate::Threads)
    /// says.
    pub fn step<T: Send>(
        &self,
        name: impl Into<String>,
        change: impl Fn(&mut M) + Send + Sync + 'static,
        body: impl FnOnce() -> T + Send,
    ) -> T {
        let op = self.begin(name, change);
        let result = self.oracle.on_its_thread(body);
        self.acked(op);
        result
    }

    /// As [`Twin::step`], always on the calling thread: for bodies that are bound to it.
    pub fn step_here<T>(
        &self,
        name: impl Into<String>,
        change: impl Fn(&mut M) + Send + Sync + 'static,
        body: impl FnOnce() -> T,
    ) -> T {
        let op = self.begin(name, change);
        let result = body();
        self.acked(op);
        result
    }

    /// See [`Oracle::on_its_thread`].
    pub fn on_its_thread<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        self.oracle.on_its_thread(body)
    }
}

impl Explorer {
    /// [`Explorer::explore_twin`], printing what was explored.
    ///
    /// # Panics
    /// With the failure's text, if an image fails.
    pub fn twin<M, P, R>(&self, image: &Image, initial: &M, order: Order, program: P, observe: R) -> Report
    where
        M: Clone + PartialEq + Debug + Send,
        P: Fn(Media, &Twin<'_, M>),
        R: Fn(Media, &Seen) -> Result<M, String>,
    {
        match self.explore_twin(image, initial, order, program, observe) {
            Ok(report) => {
                println!("{report}");
                report
            }
            Err(failure) => panic!("{failure}"),
        }
    }

    /// Explores a program against its model: `observe` recovers an image and reads out what it
    /// holds, as a model.
    ///
    /// # Errors
    /// The failing image, shrunk.
    pub fn explore_twin<M, P, R>(
        &self,
        image: &Image,
        initial: &M,
        order: Order,
        program: P,
        observe: R,
    ) -> Result<Report, Box<Failure>>
    where
        M: Clone + PartialEq + Debug + Send,
        P: Fn(Media, &Twin<'_, M>),
        R: Fn(Media, &Seen) -> Result<M, String>,
    {
        let run = Mutex::new(Run { initial: initial.clone(), changes: Vec::new(), is_second: false });
        // Runs that ended, each with what had been seen of it by then.
        let before = Mutex::new(Vec::<(Run<M>, Seen)>::new());
        let recorded = |media: Media, oracle: &Oracle| {
            run.lock().changes.clear();
            program(media, &Twin { oracle, run: &run });
        };
        let check = |media: Media, seen: &Seen| {
            let found = observe(media, seen)?;
            let run = run.lock();
            let judged = judge(&found, &run.initial, &run.changes, order, seen);
            let mut heir = seen;
            for (run, seen) in before.lock().iter().rev() {
                // power takes the dead process's last stores along, too
                if judged.is_ok() || !heir.heir || heir.acked_count() > 0 {
                    break;
                }
                if judge(&found, &run.initial, &run.changes, order, seen).is_ok() {
                    return Ok(());
                }
                heir = seen;
            }
            judged
        };
        let begin = |media: Media, seen: &Seen| {
            let second = Run { initial: observe(media, seen)?, changes: Vec::new(), is_second: true };
            before.lock().push((std::mem::replace(&mut *run.lock(), second), seen.clone()));
            Ok(())
        };
        let end = || {
            if let Some((first, _)) = before.lock().pop() {
                *run.lock() = first;
            }
        };
        self.generations(image, &recorded, &check, Some((&begin, &end)))
    }
}

/// Whether `found` is a state that a crash may leave.
fn judge<M>(found: &M, initial: &M, changes: &[Change<M>], order: Order, seen: &Seen) -> Result<(), String>
where
    M: Clone + PartialEq + Debug,
{
    let begun = seen.begun_count();
    let mut nearest = initial.clone();
    let fits = match order {
        Order::InOrder => {
            let acked = (0..begun).rev().find(|&op| seen.acked(Op(op))).map_or(0, |last| last + 1);
            changes[..acked].iter().for_each(|change| change(&mut nearest));
            let mut state = nearest.clone();
            state == *found
                || changes[acked..begun].iter().any(|change| {
                    change(&mut state);
                    state == *found
                })
        }
        Order::Free => {
            let flying: Vec<usize> = (0..begun).filter(|&op| !seen.acked(Op(op))).collect();
            assert!(flying.len() <= 12, "{} operations pending at once; at most 12 can be judged", flying.len());
            (0..1_u32 << flying.len()).any(|kept| {
                let mut state = initial.clone();
                for (op, change) in changes[..begun].iter().enumerate() {
                    let place = flying.iter().position(|&flying| flying == op);
                    if place.is_none_or(|place| kept >> place & 1 == 1) {
                        change(&mut state);
                    }
                }
                let fits = state == *found;
                if kept == 0 {
                    nearest = state;
                }
                fits
            })
        }
    };
    if fits {
        return Ok(());
    }
    Err(format!("found {found:?}, which is no state of the model with {seen:?}; acknowledged: {nearest:?}"))
}
