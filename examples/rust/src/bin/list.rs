//! A linked list that outlives its process: each run appends its words and prints the whole list.
//!
//! `list STORE [NUMBER ..]`

#![forbid(unsafe_code)]

use everbyte::{Journal, MemPool, PRefCell, PSafe, Pbox, Pool, pool};
use everbyte_examples::{Outcome, arguments, store};

pool!(P);

#[derive(PSafe)]
#[repr(C)]
struct Node<T: PSafe<P>, P: MemPool> {
    val: T,
    next: PRefCell<Link<T, P>, P>,
}

type Link<T, P> = Option<Pbox<Node<T, P>, P>>;

fn append<T: PSafe<P>, P: MemPool>(n: &Node<T, P>, v: T, j: &Journal<P>) {
    let mut t = n.next.borrow_mut(j);
    match &*t {
        Some(succ) => append(succ, v, j),
        None => *t = Some(Pbox::new(Node { val: v, next: PRefCell::new(None) }, j)),
    }
}

fn print<P: MemPool>(n: &Node<i32, P>) {
    if let Some(succ) = &*n.next.borrow() {
        println!("{}", succ.val);
        print(succ);
    }
}

fn main() -> Outcome {
    let (path, words) = arguments("list STORE [NUMBER ..]")?;
    let store = store(path)?;
    let head = P::open_or_create::<Node<i32, P>>(&store, "list", |_| Node { val: 0, next: PRefCell::new(None) })?;
    for word in words {
        let v: i32 = word.parse()?;
        head.tx(|j, head| append(head, v, j))?; // survives whatever happens from here on
    }
    print(&head);
    Ok(())
}
