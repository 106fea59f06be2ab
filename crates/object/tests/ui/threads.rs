//! No race: values shared by threads are behind a lock, and values of a running transaction stay in
//! its thread (row CR28; goal No-Races).
#[path = "common.rs"]
mod common;
use common::*;

//@ a_counted_pointer_spawned: E0277 E0521
fn a_counted_pointer_spawned() {
    P1::transaction(|j| {
        let shared = Parc::new(1u32, j);
        thread::spawn(move || drop(shared));
    })
    .unwrap();
}
//@ a_counted_pointer_in_a_scope: E0277 E0521
fn a_counted_pointer_in_a_scope() {
    P1::transaction(|j| {
        let shared = Parc::new(1u32, j);
        thread::scope(|s| {
            s.spawn(move || drop(shared));
        });
    })
    .unwrap();
}
//@ a_box_in_a_scope: E0277 E0521
fn a_box_in_a_scope() {
    P1::transaction(|j| {
        let new = Pbox::new(1u32, j);
        thread::scope(|s| {
            s.spawn(move || drop(new));
        });
    })
    .unwrap();
}
//@ a_vector_in_a_scope: E0277 E0521
fn a_vector_in_a_scope() {
    P1::transaction(|j| {
        let new = PVec::from_slice(&[1u8], j);
        thread::scope(|s| {
            s.spawn(move || drop(new));
        });
    })
    .unwrap();
}
//@ a_weak_pointer_in_a_scope: E0277 E0521
fn a_weak_pointer_in_a_scope() {
    P1::transaction(|j| {
        let weak = Parc::new(1u32, j).downgrade(j);
        thread::scope(|s| {
            s.spawn(move || drop(weak));
        });
    })
    .unwrap();
}
//@ a_ferried_box_spawned: E0521
fn a_ferried_box_spawned() {
    P1::transaction(|j| {
        let ferry = Ferry::new(Pbox::new(1u32, j));
        thread::spawn(move || drop(ferry));
    })
    .unwrap();
}
//@ a_leaked_box_spawned: E0308 lifetime E0521
fn a_leaked_box_spawned() {
    P1::transaction(|j| {
        let leaked: &'static Pbox<u32, P1> = Box::leak(Box::new(Pbox::new(1u32, j)));
        thread::spawn(move || println!("{}", **leaked));
    })
    .unwrap();
}
//@ the_journal_in_a_scope: E0277
fn the_journal_in_a_scope() {
    P1::transaction(|j| {
        thread::scope(|s| {
            s.spawn(|| drop(Pbox::new(1u32, j)));
        });
    })
    .unwrap();
}
//@ a_lock_with_anothers_journal: E0277
fn a_lock_with_anothers_journal(r: &Root<PMutex<u32, P1>, P1>) {
    r.tx(|j, mutex| {
        thread::scope(|s| {
            s.spawn(|| *mutex.lock(j) += 1);
        });
    })
    .unwrap();
}
//@ a_guard_in_a_scope: E0277
fn a_guard_in_a_scope(r: &Root<PMutex<u32, P1>, P1>) {
    r.tx(|j, mutex| {
        let mut guard = mutex.lock(j);
        thread::scope(|s| {
            s.spawn(|| *guard += 1);
        });
    })
    .unwrap();
}
//@ two_readers_of_one_cell: E0277
fn two_readers_of_one_cell() {
    let r = list();
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| drop(r.next.borrow()));
        }
    });
}
//@ two_writers_of_one_cell: E0277
fn two_writers_of_one_cell() {
    let r = list();
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| r.tx(|j, root| append(root, 1, j)).unwrap());
        }
    });
}
//@ a_shared_root_of_cells: E0277
fn a_shared_root_of_cells(r: Arc<Root<PCell<u32, P1>, P1>>) {
    thread::spawn(move || r.get());
}
//@ a_shared_root_of_volatile_cells: E0277
fn a_shared_root_of_volatile_cells(r: Arc<Root<VCell<u32, P1>, P1>>) {
    thread::spawn(move || r.get());
}
//@ a_shared_root_of_once_cells: E0277
fn a_shared_root_of_once_cells(r: Arc<Root<POnceCell<u32, P1>, P1>>) {
    thread::spawn(move || r.get().copied());
}
//@ a_root_of_thread_bound_counts_moved: E0277
fn a_root_of_thread_bound_counts_moved(r: Root<PRefCell<Option<Prc<u32, P1>>, P1>, P1>) {
    thread::spawn(move || drop(r));
}
//@ a_mutex_of_thread_bound_counts: E0277
fn a_mutex_of_thread_bound_counts(r: &Root<PMutex<Option<Prc<u32, P1>>, P1>, P1>) {
    thread::scope(|s| {
        s.spawn(|| r.tx(|_, _| ()).unwrap());
    });
}
//@ a_mutex_of_shared_cells: E0277
fn a_mutex_of_shared_cells(r: &Root<PMutex<Option<Parc<PRefCell<u32, P1>, P1>>, P1>, P1>) {
    thread::scope(|s| {
        s.spawn(|| r.tx(|_, _| ()).unwrap());
    });
}
//@ a_readers_lock_of_cells: E0277
fn a_readers_lock_of_cells(r: &Root<PRwLock<PCell<u32, P1>, P1>, P1>) {
    thread::scope(|s| {
        s.spawn(|| r.tx(|_, _| ()).unwrap());
    });
}
//@ a_weak_pointer_to_a_cell: E0277
fn a_weak_pointer_to_a_cell() {
    let weak = P1::transaction(|j| Parc::new(PRefCell::new(1u32), j).demote(j)).unwrap();
    thread::spawn(move || drop(weak));
}
//@ a_thread_bound_weak_pointer: E0277
fn a_thread_bound_weak_pointer() {
    let weak = P1::transaction(|j| Prc::new(1u32, j).demote(j)).unwrap();
    thread::spawn(move || drop(weak));
}
//@ a_shared_static_of_cells: E0277
static CELLS: OnceLock<Root<PRefCell<u32, P1>, P1>> = OnceLock::new();
//@ a_future_that_drops_a_box_elsewhere: unsendable E0521
fn a_future_that_drops_a_box_elsewhere() {
    P1::transaction(|j| {
        let new = Pbox::new(1u32, j);
        sendable(async move {
            std::future::ready(()).await;
            drop(new);
        });
    })
    .unwrap();
}
//@ a_future_that_holds_a_box: unsendable "the trait `Send` is not implemented"
fn a_future_that_holds_a_box() {
    P1::transaction(|j| {
        let new = Pbox::new(1u32, j);
        sendable(async move {
            let held = new;
            std::future::ready(()).await;
            drop(held);
        });
    })
    .unwrap();
}
//@ a_root_of_cells_moved_out_of_a_body_that_has_changed_them: E0277
fn a_root_of_cells_moved_out_of_a_body_that_has_changed_them(r: Root<PRefCell<u32, P1>, P1>) {
    P1::transaction(move |j| {
        *r.at(j).borrow_mut(j) = 1;
        thread::spawn(move || *r.borrow());
    })
    .unwrap();
}
