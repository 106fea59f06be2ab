//! Nothing carries a pointer out of a transaction: no captured variable, static, thread-local,
//! channel, panic, cell of a persistent type on the stack, leaked reference or wrapper that fakes
//! `Send`. The brand holds, with the lint switched off.
#[path = "common.rs"]
mod common;
use common::*;

//@ into_a_variable: E0521
fn into_a_variable() {
    let mut out = None;
    P1::transaction(|j| out = Some(Pbox::new(1u32, j))).unwrap();
    drop(out);
}
//@ into_a_variable_by_tx: E0521
fn into_a_variable_by_tx() {
    let mut out = None;
    list().tx(|j, _| out = Some(Pbox::new(1u32, j))).unwrap();
    drop(out);
}
//@ into_an_asserted_variable: E0308 E0521 lifetime
fn into_an_asserted_variable() {
    let mut out: Option<Pbox<u32, P1>> = None;
    let mut way = AssertUnwindSafe(&mut out);
    P1::transaction(move |j| {
        let way = &mut way;
        ***way = Some(Pbox::new(1u32, j));
    })
    .unwrap();
    println!("{}", **out.as_ref().unwrap());
}
//@ swapped_into_a_variable: E0521
fn swapped_into_a_variable() {
    let mut out = None;
    list().tx(|j, root| std::mem::swap(&mut out, &mut *root.next.borrow_mut(j))).unwrap();
    drop(out);
}
//@ into_a_vec: E0521
fn into_a_vec() {
    let mut out = Vec::new();
    P1::transaction(|j| out.push(Pbox::new(1u32, j))).unwrap();
    drop(out);
}
//@ reference_into_a_variable: E0521
fn reference_into_a_variable() {
    let mut out = None;
    list().tx(|_, root| out = Some(&root.val)).unwrap();
    println!("{out:?}");
}
//@ journal_into_a_variable: E0521
fn journal_into_a_variable() {
    let mut out = None;
    P1::transaction(|j| out = Some(j)).unwrap();
    let _ = out;
}
//@ guard_into_a_variable: E0521
fn guard_into_a_variable() {
    let mut out = None;
    list().tx(|j, root| out = Some(root.next.borrow_mut(j))).unwrap();
    drop(out);
}
//@ into_a_refcell: E0308 E0521
fn into_a_refcell() {
    let out: RefCell<Option<Pbox<u32, P1>>> = RefCell::new(None);
    let way = AssertUnwindSafe(&out);
    P1::transaction(move |j| {
        let way = &way;
        *way.borrow_mut() = Some(Pbox::new(1u32, j));
    })
    .unwrap();
}
//@ into_a_mutex: E0308 E0521
fn into_a_mutex() {
    let out: Mutex<Option<Pbox<u32, P1>>> = Mutex::new(None);
    P1::transaction(|j| *out.lock().unwrap() = Some(Pbox::new(1u32, j))).unwrap();
}
//@ into_a_mutex_inferred: E0521
fn into_a_mutex_inferred() {
    let out = Mutex::new(None);
    P1::transaction(|j| *out.lock().unwrap() = Some(Pbox::new(1u32, j))).unwrap();
}
//@ leaked_into_a_mutex: E0308 E0521
fn leaked_into_a_mutex() {
    let out: Mutex<Option<&'static Pbox<u32, P1>>> = Mutex::new(None);
    P1::transaction(|j| *out.lock().unwrap() = Some(Box::leak(Box::new(Pbox::new(1u32, j))))).unwrap();
}
//@ ferried_into_a_mutex: E0308 E0521
fn ferried_into_a_mutex() {
    let out: Mutex<Option<Ferry<Pbox<u32, P1>>>> = Mutex::new(None);
    P1::transaction(|j| *out.lock().unwrap() = Some(Ferry::new(Pbox::new(1u32, j)))).unwrap();
}
//@ journal_into_a_mutex: E0521
fn journal_into_a_mutex() {
    let out = Mutex::new(None);
    P1::transaction(|j| *out.lock().unwrap() = Some(j)).unwrap();
}
//@ into_a_channel: E0308 E0521
fn into_a_channel() {
    let (sender, receiver) = mpsc::channel::<Pbox<u32, P1>>();
    P1::transaction(move |j| sender.send(Pbox::new(1u32, j)).unwrap()).unwrap();
    drop(receiver);
}
//@ into_a_channel_inferred: E0521
fn into_a_channel_inferred() {
    let (sender, receiver) = mpsc::channel();
    P1::transaction(|j| sender.send(Pbox::new(1u32, j)).unwrap()).unwrap();
    drop(receiver);
}
//@ into_a_static: E0308 E0521
static HELD: Mutex<Option<Pbox<u32, P1>>> = Mutex::new(None);
fn into_a_static() {
    P1::transaction(|j| *HELD.lock().unwrap() = Some(Pbox::new(1u32, j))).unwrap();
}
//@ leaked_into_a_static: E0308 E0521
static LEAKED: Mutex<Option<&'static Pbox<u32, P1>>> = Mutex::new(None);
fn leaked_into_a_static() {
    P1::transaction(|j| *LEAKED.lock().unwrap() = Some(Box::leak(Box::new(Pbox::new(1u32, j))))).unwrap();
}
//@ ferried_into_a_static: E0308 E0521
static FERRIED: Mutex<Option<Ferry<Pbox<u32, P1>>>> = Mutex::new(None);
fn ferried_into_a_static() {
    P1::transaction(|j| *FERRIED.lock().unwrap() = Some(Ferry::new(Pbox::new(1u32, j)))).unwrap();
}
//@ into_a_static_once: E0308 E0521
static ONCE: OnceLock<Pbox<u32, P1>> = OnceLock::new();
fn into_a_static_once() {
    P1::transaction(|j| ONCE.set(Pbox::new(1u32, j)).is_ok()).unwrap();
}
//@ into_a_thread_local: E0308 E0521
thread_local! { static HERE: RefCell<Option<Pbox<u32, P1>>> = const { RefCell::new(None) }; }
fn into_a_thread_local() {
    P1::transaction(|j| HERE.with(|here| *here.borrow_mut() = Some(Pbox::new(1u32, j)))).unwrap();
}
//@ into_a_thread_local_any: lifetime
thread_local! { static ANY: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) }; }
fn into_a_thread_local_any() {
    P1::transaction(|j| ANY.with(|any| *any.borrow_mut() = Some(Box::new(Pbox::new(1u32, j))))).unwrap();
}
//@ guard_into_a_thread_local: E0308 E0521
thread_local! { static GUARD: RefCell<Option<PRefMut<'static, u32, P1>>> = const { RefCell::new(None) }; }
fn guard_into_a_thread_local(r: &Root<PRefCell<u32, P1>, P1>) {
    r.tx(|j, cell| GUARD.with(|guard| *guard.borrow_mut() = Some(cell.borrow_mut(j)))).unwrap();
}
//@ into_a_volatile_cell: E0308 E0521
fn into_a_volatile_cell() {
    let out: PRefCell<Option<Pbox<u32, P1>>, P1> = PRefCell::new(None);
    P1::transaction(|j| *out.borrow_mut(j) = Some(Pbox::new(1u32, j))).unwrap();
}
//@ into_a_volatile_mutex: E0308 E0521
fn into_a_volatile_mutex() {
    let out: PMutex<Option<Pbox<u32, P1>>, P1> = PMutex::new(None);
    P1::transaction(|j| *out.lock(j) = Some(Pbox::new(1u32, j))).unwrap();
}
//@ into_a_volatile_once_cell: E0308 E0521
fn into_a_volatile_once_cell() {
    let out: POnceCell<Pbox<u32, P1>, P1> = POnceCell::new();
    P1::transaction(|j| out.set(Pbox::new(1u32, j), j).is_ok()).unwrap();
}
//@ volatile_pcell_changed: E0308 E0521
fn volatile_pcell_changed() {
    let out: PCell<u32, P1> = PCell::new(1);
    P1::transaction(|j| out.set(2, j)).unwrap();
}
//@ thrown: E0277 E0521
fn thrown() {
    let _ = P1::transaction(|j| std::panic::panic_any(Pbox::new(1u32, j)));
}
//@ thrown_in_a_ferry: E0521
fn thrown_in_a_ferry() {
    let _ = P1::transaction(|j| std::panic::panic_any(Ferry::new(Pbox::new(1u32, j))));
}
//@ resumed_unwinding: lifetime
fn resumed_unwinding() {
    let _ = P1::transaction(|j| std::panic::resume_unwind(Box::new(Ferry::new(Pbox::new(1u32, j)))));
}
