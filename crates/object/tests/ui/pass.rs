//! Programs that should compile, comfortably: the canonical list and its uses.
#[path = "common.rs"]
mod common;
use common::*;
use std::error::Error;
use std::fmt;
use std::num::ParseIntError;

// The list, in every way of reaching its root.
mod the_list {
    use super::*;
    fn by_the_root(head: &Root<List, P1>, v: i32) {
        head.tx(|j, head| append(head, v, j)).unwrap();
    }
    fn by_the_journal(head: &Root<List, P1>, v: i32) {
        P1::transaction(|j| append(head.at(j), v, j)).unwrap();
    }
    fn by_a_reference(head: &List, v: i32) {
        P1::transaction(|j| append(j.enter(head), v, j)).unwrap();
    }
    fn with_j_annotated(r: &Root<List, P1>) {
        r.tx(|j: &Journal<_>, head| append(head, 1, j)).unwrap();
    }
    fn sum<P: MemPool>(n: &Node<i32, P>) -> i32 {
        n.val + n.next.borrow().as_ref().map_or(0, |next| sum(next))
    }
    fn read_inside_and_outside(head: &Root<List, P1>) -> i32 {
        sum(head) + head.tx(|_, head| sum(head)).unwrap()
    }
    fn take_and_relink(h: &Root<List, P1>) {
        h.tx(|j, h| {
            let rest = h.next.borrow_mut(j).take();
            *h.next.borrow_mut(j) = Some(Pbox::new(Node { val: 9, next: PRefCell::new(rest) }, j));
        })
        .unwrap();
    }
    impl<T: PSafe<P>, P: MemPool> Node<T, P> {
        fn push(&self, v: T, j: &Journal<P>) {
            append(self, v, j);
        }
    }
    fn by_a_method() {
        list().tx(|j, head| head.push(3, j)).unwrap();
    }
    fn each<P: MemPool>(n: &Node<i32, P>, f: &mut dyn FnMut(i32)) {
        f(n.val);
        if let Some(next) = &*n.next.borrow() {
            each(next, f);
        }
    }
    fn collected(h: &Root<List, P1>) -> Vec<i32> {
        h.tx(|_, h| {
            let mut all = vec![];
            each(h, &mut |v| all.push(v));
            all
        })
        .unwrap()
    }
    fn last<'a, P: MemPool>(n: &'a Node<i32, P>, j: &'a Journal<P>) -> PRefMut<'a, Option<Pbox<Node<i32, P>, P>>, P> {
        n.next.borrow_mut(j)
    }
    fn a_helper_returns_a_guard(r: &Root<List, P1>) {
        r.tx(|j, h| *last(h, j) = None).unwrap();
    }
}

// Values that a body reads, takes and makes.
mod bodies {
    use super::*;
    #[derive(Clone, Copy)]
    struct Settings {
        n: u32,
    }
    fn reads(s: &str, v: &Vec<u32>, m: &HashMap<String, u32>, settings: Settings, a: Arc<Vec<u8>>) -> usize {
        P1::transaction(|j| {
            Pbox::new(settings.n, j);
            s.len() + v.len() + m.len() + a.len()
        })
        .unwrap()
    }
    fn reads_counted(a: Rc<Vec<u8>>) -> usize {
        P1::transaction(|_| a.len()).unwrap()
    }
    static ONCE: OnceLock<u32> = OnceLock::new();
    fn reads_once(once: &OnceLock<u32>) -> u32 {
        P1::transaction(|_| *once.get().unwrap() + *ONCE.get().unwrap()).unwrap()
    }
    fn consumes(v: Vec<u32>) {
        P1::transaction(move |j| v.into_iter().for_each(|x| drop(Pbox::new(x, j)))).unwrap();
    }
    fn consumes_an_iterator(v: Vec<u32>) {
        let items = v.into_iter().map(|x| x + 1);
        P1::transaction(move |j| items.for_each(|x| drop(Pbox::new(x, j)))).unwrap();
    }
    fn fills(h: &Root<List, P1>, all: Rc<Vec<i32>>) {
        h.tx(|j, h| all.iter().for_each(|&x| append(h, x, j))).unwrap();
    }
    fn changes_its_own() -> u32 {
        P1::transaction(|_| {
            let mut v = vec![1u32];
            v.push(2);
            let (cell, mutex) = (Cell::new(1), Mutex::new(1));
            cell.set(2);
            *mutex.lock().unwrap() += 1;
            v.iter().sum::<u32>() + cell.get()
        })
        .unwrap()
    }
    fn prints() {
        P1::transaction(|_| println!("x")).unwrap();
    }
    fn catches() {
        P1::transaction(|_| std::panic::catch_unwind(|| panic!("x")).is_err()).unwrap();
    }
    fn keeps_boxes_in_volatile_collections() {
        P1::transaction(|j| {
            let mut all: Vec<_> = (0..3u32).map(|i| Pbox::new(i, j)).collect();
            all.sort_by_key(|one| **one);
            let by: HashMap<u32, &Pbox<u32, _>> = all.iter().map(|one| (**one, one)).collect();
            by.len()
        })
        .unwrap();
    }
    fn keeps_references_in_a_vec(h: &Root<List, P1>) -> usize {
        h.tx(|_, h| {
            let mut all: Vec<&Node<i32, _>> = vec![h];
            let next = h.next.borrow();
            all.extend(next.as_deref());
            all.len()
        })
        .unwrap()
    }
    // Captures that the lint would refuse, by `tx`: no bound at all on them.
    fn calls(h: &Root<List, P1>, f: &dyn Fn(i32) -> i32, cell: &RefCell<Vec<i32>>) {
        let mut n = 0;
        h.tx(|j, h| {
            append(h, f(1), j);
            cell.borrow_mut().push(1);
            n += 1;
        })
        .unwrap();
    }
    fn calls_a_generic<F: Fn(u32) -> u32>(f: F) -> u32 {
        P1::transaction(|_| f(1)).unwrap()
    }
    fn reads_a_generic<T: Clone + Into<u32>>(t: &T) -> u32 {
        P1::transaction(|_| t.clone().into()).unwrap()
    }
    fn reads_a_once_cell(once: &OnceCell<u32>) -> u32 {
        P1::transaction(|_| *once.get().unwrap()).unwrap()
    }
    fn consumes_a_dyn_iterator(items: Box<dyn Iterator<Item = u32>>) {
        P1::transaction(move |j| items.for_each(|x| drop(Pbox::new(x, j)))).unwrap();
    }
    // Stated, not refused: volatile state behind locks, atomics, channels and thread-locals is not
    // rolled back.
    fn changes_behind_locks(m: &Mutex<Vec<u32>>, n: &AtomicU64, sender: mpsc::Sender<u32>) {
        P1::transaction(move |_| {
            m.lock().unwrap().push(1);
            n.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            sender.send(1).unwrap();
        })
        .unwrap();
    }
    fn asserted(n: &mut u32) {
        let mut n = AssertUnwindSafe(n);
        P1::transaction(move |_| {
            let n = &mut n;
            ***n += 1;
        })
        .unwrap();
    }
    // A leak, and never a dangling pointer: `Root::check` finds it.
    fn forgets() {
        P1::transaction(|j| std::mem::forget(Pbox::new(1u32, j))).unwrap();
    }
}

// Results of a body: anything volatile, with no bound to implement.
mod results {
    use super::*;
    fn text() -> Vec<String> {
        P1::transaction(|_| -> Result<Vec<String>, String> { Ok(vec!["a".into()]) }).unwrap().unwrap()
    }
    struct Info {
        n: u32,
        s: String,
    }
    fn ones_own() -> Info {
        P1::transaction(|_| Info { n: 1, s: "x".into() }).unwrap()
    }
    fn of_the_library() -> (HashMap<String, u32>, std::time::Duration, Rc<u32>) {
        P1::transaction(|_| (HashMap::new(), std::time::Duration::from_secs(1), Rc::new(1))).unwrap()
    }
    fn content() -> u32 {
        P1::transaction(|j| *Pbox::new(1u32, j)).unwrap()
    }
    fn errors(h: &Root<List, P1>, s: &str) -> Result<u32, Box<dyn Error>> {
        h.tx(|j, h| -> Result<u32, Box<dyn Error>> {
            let n: i32 = s.parse()?;
            append(h, n, j);
            Ok(1)
        })?
    }
    fn errors_that_roll_back(h: &Root<List, P1>, s: &str) -> Result<(), TryError<ParseIntError>> {
        h.try_tx(|j, h| {
            append(h, 1, j);
            append(h, s.parse()?, j);
            Ok(())
        })
    }
    fn errors_that_borrow<'s>(h: &Root<List, P1>, s: &'s str) -> Result<i32, &'s str> {
        h.tx(|j, h| -> Result<i32, &'s str> {
            let n: i32 = s.parse().map_err(|_| s)?;
            append(h, n, j);
            Ok(n)
        })
        .unwrap()
    }
    fn options(r: &Root<List, P1>) -> Option<i32> {
        r.tx(|_, h| -> Option<i32> { Some(h.next.borrow().as_ref()?.val) }).unwrap()
    }
    fn volatile_weak() -> parc::VWeak<PMutex<u32, P1>, P1> {
        P1::transaction(|j| Parc::new(PMutex::new(1u32), j).demote(j)).unwrap()
    }
    fn what_was_borrowed_outside(r: &Root<List, P1>) -> &i32 {
        let seen: &List = r;
        P1::transaction(move |_| &seen.val).unwrap()
    }
    fn keeps_volatile_weaks(m: &mut HashMap<String, parc::VWeak<PMutex<u32, P1>, P1>>) {
        m.insert("a".into(), volatile_weak());
        P1::transaction(|j| {
            if let Some(shared) = m["a"].promote(j) {
                *shared.lock(j) += 1;
            }
        })
        .unwrap();
    }
}

// Helpers, generic in the pool, and the two ways of naming it.
mod helpers {
    use super::*;
    fn generic<P: MemPool>(n: u32, j: &Journal<P>) -> Pbox<u32, P> {
        Pbox::new(n, j)
    }
    fn by_tag<'t>(h: &Node<i32, In<'t, P1Tag>>, j: &Journal<In<'t, P1Tag>>) -> Pbox<u32, In<'t, P1Tag>> {
        append(h, 1, j);
        Pbox::new(1, j)
    }
    fn body<'t>(j: &'t Journal<In<'t, P1Tag>>) -> u32 {
        *generic(1, j)
    }
    fn go() -> u32 {
        list().tx(|j, h| drop(by_tag(h, j))).unwrap();
        P1::transaction(body).unwrap() + P1::transaction(|j| *generic(1, j)).unwrap()
    }
    fn over_roots<R: PSafe<Out<G>>, G: PoolTag>(r: &Root<R, Out<G>>) {
        r.tx(|_, _| ()).unwrap();
    }
    trait Bump<P: MemPool> {
        fn bump(&self, j: &Journal<P>);
    }
    impl<P: MemPool> Bump<P> for PCell<u64, P> {
        fn bump(&self, j: &Journal<P>) {
            self.set(self.get() + 1, j);
        }
    }
    fn traits(r: &Root<PCell<u64, P1>, P1>) {
        r.tx(|j, cell| cell.bump(j)).unwrap();
    }
    fn entered(cell: &PCell<u64, P1>) {
        P1::transaction(|j| j.enter(cell).set(cell.get() + 1, j)).unwrap();
    }
    trait Show {
        fn show(&self) -> String;
    }
    impl<P: MemPool> Show for Node<i32, P> {
        fn show(&self) -> String {
            self.val.to_string()
        }
    }
    fn trait_objects(h: &Root<List, P1>) -> String {
        h.tx(|_, h| {
            let shown: &dyn Show = h;
            shown.show()
        })
        .unwrap()
    }
    fn across<A: MemPool, B: MemPool>(a: &Node<i32, A>, ja: &Journal<A>, b: &Node<i32, B>, jb: &Journal<B>) {
        append(a, b.val, ja);
        append(b, a.val, jb);
    }
    fn two_pools(x: &Root<List, P1>, y: &Root<Node<i32, P2>, P2>) {
        x.tx(|ja, a| y.tx(|jb, b| across(a, ja, b, jb)).unwrap()).unwrap();
    }
}

// Transactions in transactions, and programs that hold their pools in structs, statics and threads.
mod programs {
    use super::*;
    fn nested(h: &Root<List, P1>) {
        h.tx(|j, r| {
            append(r, 1, j);
            P1::transaction(|j2| append(j2.enter(&**h), 2, j2)).unwrap();
            j.nested(|j| append(r, 3, j)).unwrap();
        })
        .unwrap();
    }
    fn nested_with_boxes(h: &Root<List, P1>) {
        h.tx(|j, r| {
            let new = j.nested(|j| Pbox::new(node(3), j)).unwrap();
            *r.next.borrow_mut(j) = Some(new);
        })
        .unwrap();
    }
    fn of_another_pool(h: &Root<List, P1>, g: &Root<Node<i32, P2>, P2>) {
        h.tx(|j, first| {
            append(first, 1, j);
            g.tx(|j2, second| append(second, first.val, j2)).unwrap();
        })
        .unwrap();
    }
    // Sound, since the two cannot be linked; the lint would refuse it.
    fn both_journals(h: &Root<List, P1>, g: &Root<Node<i32, P2>, P2>) {
        h.tx(|j, first| g.tx(|_, _| append(first, 1, j)).unwrap()).unwrap();
    }
    struct App {
        root: Root<List, P1>,
        name: String,
        seen: RefCell<Vec<u32>>,
    }
    impl App {
        // `tx` would refuse both: the body captures `self`, with its cell.
        fn by_field(&self) -> usize {
            self.root
                .tx(|j, r| {
                    append(r, 1, j);
                    self.name.len()
                })
                .unwrap()
        }
        fn len(&self) -> usize {
            self.name.len()
        }
        fn by_self(&self) -> usize {
            self.root
                .tx(|j, r| {
                    append(r, 1, j);
                    self.len()
                })
                .unwrap()
        }
    }
    struct Databases {
        a: Root<List, P1>,
        b: Root<Node<i32, P2>, P2>,
        names: Vec<String>,
    }
    impl Databases {
        fn copy(&self) {
            self.a
                .tx(|ja, a| {
                    self.b.tx(|jb, b| append(b, a.val + self.names.len() as i32, jb)).unwrap();
                    append(a, 1, ja);
                })
                .unwrap();
        }
    }
    fn threads_share_a_mutex(r: &Root<Slot, P1>) {
        thread::scope(|s| {
            for i in 0..2 {
                s.spawn(move || r.tx(|j, slot| *slot.lock(j) = Some(Pbox::new(i, j))).unwrap());
            }
        });
    }
    fn threads_share_an_arc(r: Root<Slot, P1>) {
        let r = Arc::new(r);
        for i in 0..2 {
            let r = r.clone();
            thread::spawn(move || r.tx(|j, slot| *slot.lock(j) = Some(Pbox::new(i, j))).unwrap());
        }
    }
    fn threads_share_cells_behind_a_mutex(r: &Root<PMutex<Option<Pbox<PRefCell<u32, P1>, P1>>, P1>, P1>) {
        thread::scope(|s| {
            s.spawn(|| {
                r.tx(|j, slot| {
                    if let Some(cell) = &*slot.lock(j) {
                        *cell.borrow_mut(j) += 1;
                    }
                })
                .unwrap();
            });
        });
    }
    fn a_root_moves_to_a_thread() {
        let h = list().detach();
        thread::spawn(move || h.attach().tx(|j, r| append(r, 1, j)).unwrap());
    }
    static STATIC: OnceLock<Root<Slot, P1>> = OnceLock::new();
    fn a_static_root() {
        STATIC.get_or_init(root).tx(|j, slot| *slot.lock(j) = Some(Pbox::new(1, j))).unwrap();
    }
    type Shared = PMutex<Option<Parc<PMutex<u32, P1>, P1>>, P1>;
    fn a_weak_pointer_to_a_thread(r: &Root<Shared, P1>) {
        let weak = r
            .tx(|j, r| {
                let shared = Parc::new(PMutex::new(1u32), j);
                let weak = shared.demote(j);
                *r.lock(j) = Some(shared);
                weak
            })
            .unwrap();
        thread::spawn(move || {
            P1::transaction(|j| {
                if let Some(shared) = weak.promote(j) {
                    *shared.lock(j) += 1;
                }
            })
            .unwrap();
        });
    }
    // Sent out of a running transaction: promoted to `None` until that has committed.
    fn a_weak_pointer_sent_meanwhile() {
        P1::transaction(|j| {
            let weak = Parc::new(PMutex::new(1u32), j).demote(j);
            thread::spawn(move || P1::transaction(|j| weak.promote(j).is_none()).unwrap());
        })
        .unwrap();
    }
    // Waits for the transaction to end, at run time: see docs/semantics/typed-refusals.md.
    fn dropped_inside_of_another_body(h: Root<List, P1>) {
        let _ = P2::transaction(move |_| drop(h));
    }
    async fn awaits_between(h: &Root<List, P1>) {
        h.tx(|j, h| append(h, 1, j)).unwrap();
        std::future::ready(()).await;
        h.tx(|j, h| append(h, 2, j)).unwrap();
    }
    async fn locks(r: &Root<PMutex<u32, P1>, P1>) {
        r.tx(|j, m| *m.lock(j) += 1).unwrap();
        std::future::ready(()).await;
    }
    fn is_sendable(r: &Root<PMutex<u32, P1>, P1>) {
        sendable(locks(r));
    }
}

// Types that live in a pool.
mod types {
    use super::*;
    #[derive(PSafe, Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
    #[repr(C)]
    struct Key {
        a: u32,
        b: u64,
    }
    #[derive(PSafe, Clone, Copy)]
    #[repr(C)]
    struct Point(f64, f64);
    #[derive(PSafe)]
    #[repr(C)]
    struct Unit;
    #[derive(PSafe)]
    #[repr(transparent)]
    struct Wrapped<P: MemPool>(PCell<u64, P>);
    #[derive(PSafe)]
    #[repr(C)]
    struct Shape<P: MemPool> {
        origin: PCell<Point, P>,
        points: PRefCell<[Point; 4], P>,
        name: PRefCell<PString<P>, P>,
        pair: (u8, Option<Pbox<Key, P>>),
    }
    fn shapes(r: &Root<Shape<P1>, P1>) {
        r.tx(|j, shape| {
            shape.origin.set(Point(1., 1.), j);
            shape.points.borrow_mut(j)[0].0 = 2.;
            shape.name.borrow_mut(j).push_str("square", j);
        })
        .unwrap();
    }
    // Enums: of units, with a number, recursive, generic.
    #[derive(PSafe, Clone, Copy)]
    #[repr(u8)]
    enum Colour {
        Red = 3,
        Green,
    }
    #[derive(PSafe)]
    #[repr(C, u32)]
    enum Tree<T: PSafe<P>, P: MemPool> {
        Leaf,
        One(T),
        Two { left: Pbox<Tree<T, P>, P>, right: Pbox<Tree<T, P>, P> },
    }
    fn trees<P: MemPool>(j: &Journal<P>) -> Tree<u64, P> {
        Tree::Two { left: Pbox::new(Tree::One(1), j), right: Pbox::new(Tree::Leaf, j) }
    }
    // Generics: several parameters, numbers, where-clauses, plain data without a pool, a pool by
    // another name.
    #[derive(PSafe)]
    #[repr(C)]
    struct Table<K, V, const N: usize, Q>
    where
        K: PSafe<Q>,
        V: PSafe<Q>,
        Q: MemPool,
    {
        keys: [PCell<Option<K>, Q>; N],
        values: PVec<V, Q>,
    }
    #[derive(PSafe, Clone, Copy)]
    #[repr(C)]
    struct Pair<A, B>(A, B);
    fn tables(r: &Root<PMutex<Table<Key, Pair<u8, Colour>, 3, P1>, P1>, P1>) {
        r.tx(|j, table| table.lock(j).values.push(Pair(1, Colour::Green), j)).unwrap();
    }
    #[derive(PSafe)]
    #[repr(C)]
    struct Counter<T: PSafe<P>, P: MemPool> {
        count: PCell<T, P>,
    }
    impl<T: PSafe<P> + Copy, P: MemPool> Counter<T, P> {
        fn put(&self, v: T, j: &Journal<P>) {
            self.count.set(v, j);
        }
    }
    impl<T: PSafe<P> + Copy + fmt::Debug, P: MemPool> fmt::Debug for Counter<T, P> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?}", self.count.get())
        }
    }
    fn counters(r: &Root<Counter<u64, P1>, P1>) -> String {
        r.tx(|j, counter| counter.put(3, j)).unwrap();
        r.tx(|_, counter| format!("{counter:?}")).unwrap()
    }
    // Shared and cyclic, by weak pointers.
    #[derive(PSafe)]
    #[repr(C)]
    struct Family<P: MemPool> {
        parent: PRefCell<Option<parc::PWeak<Family<P>, P>>, P>,
        children: PRefCell<[Option<Parc<Family<P>, P>>; 2], P>,
        key: u32,
    }
    fn family<P: MemPool>(key: u32) -> Family<P> {
        Family { parent: PRefCell::new(None), children: PRefCell::new([None, None]), key }
    }
    fn families(r: &Root<Family<P1>, P1>) {
        r.tx(|j, root| {
            let (a, b) = (Parc::new(family(1), j), Parc::new(family(2), j));
            *b.parent.borrow_mut(j) = Some(a.downgrade(j));
            a.children.borrow_mut(j)[0] = Some(b.pclone(j));
            assert_eq!(b.parent.borrow().as_ref().unwrap().upgrade(j).unwrap().key, 1);
            root.children.borrow_mut(j)[0] = Some(a);
        })
        .unwrap();
    }
    // A search tree and a hash map.
    #[derive(PSafe)]
    #[repr(C)]
    struct Search<P: MemPool> {
        key: u32,
        less: Branch<P>,
        more: Branch<P>,
    }
    type Branch<P> = PRefCell<Option<Pbox<Search<P>, P>>, P>;
    fn insert<P: MemPool>(at: &Branch<P>, key: u32, j: &Journal<P>) -> bool {
        if let Some(n) = &*at.borrow() {
            return key != n.key && insert(if key < n.key { &n.less } else { &n.more }, key, j);
        }
        *at.borrow_mut(j) = Some(Pbox::new(Search { key, less: PRefCell::new(None), more: PRefCell::new(None) }, j));
        true
    }
    fn searched(r: &Root<Branch<P1>, P1>) -> bool {
        r.tx(|j, tree| insert(tree, 3, j)).unwrap()
    }
    #[derive(PSafe)]
    #[repr(C)]
    struct Entry<V: PSafe<P>, P: MemPool> {
        key: u64,
        value: V,
        next: Chain<V, P>,
    }
    type Chain<V, P> = PRefCell<Option<Pbox<Entry<V, P>, P>>, P>;
    #[derive(PSafe)]
    #[repr(C)]
    struct Map<V: PSafe<P>, P: MemPool> {
        buckets: [Chain<V, P>; 4],
    }
    impl<V: PSafe<P>, P: MemPool> Map<V, P> {
        fn put(&self, key: u64, value: V, j: &Journal<P>) {
            let mut bucket = self.buckets[(key % 4) as usize].borrow_mut(j);
            let next = PRefCell::new(bucket.take());
            *bucket = Some(Pbox::new(Entry { key, value, next }, j));
        }
        fn with<R>(&self, key: u64, f: impl FnOnce(&V) -> R) -> Option<R> {
            fn go<V: PSafe<P>, P: MemPool, R>(at: &Chain<V, P>, key: u64, f: impl FnOnce(&V) -> R) -> Option<R> {
                let at = at.borrow();
                let entry = at.as_ref()?;
                if entry.key == key { Some(f(&entry.value)) } else { go(&entry.next, key, f) }
            }
            go(&self.buckets[(key % 4) as usize], key, f)
        }
    }
    fn mapped(m: &Root<Map<PCell<u32, P1>, P1>, P1>) -> Option<u32> {
        m.tx(|j, m| m.put(1, PCell::new(2), j)).unwrap();
        m.tx(|j, m| m.with(1, |cell| cell.set(5, j))).unwrap();
        m.with(1, |cell| cell.get())
    }
    fn several_threads_read(lock: &Root<PRwLock<PVec<u32, P1>, P1>, P1>) -> usize {
        thread::scope(|s| s.spawn(|| lock.tx(|j, all| all.read(j).len()).unwrap()).join().unwrap())
    }
}

/// Maps, in helpers and behind locks.
mod maps {
    use super::*;

    type Counts<P> = PHashMap<PString<P>, u64, P>;

    fn count<P: MemPool>(counts: &mut Counts<P>, text: &str, j: &Journal<P>) -> usize {
        for word in text.split(' ') {
            match counts.get_mut(word, j) {
                Some(count) => *count += 1,
                None => drop(counts.insert(PString::from_str(word, j), 1, j)),
            }
        }
        counts.len()
    }
    fn any_map<K: PSafe<P> + std::hash::Hash + Eq, V: PSafe<P> + Default, P: MemPool>(
        map: &mut PHashMap<K, V, P>,
        key: K,
        j: &Journal<P>,
    ) {
        map.get_or_insert_with(key, V::default, j);
    }
    fn counted(r: &Root<PMutex<Counts<P1>, P1>, P1>) -> Option<u64> {
        thread::scope(|s| {
            s.spawn(|| r.tx(|j, counts| count(&mut counts.lock(j), "a b a", j)).unwrap());
        });
        r.tx(|j, counts| counts.lock(j).get("a").copied()).unwrap()
    }
    fn read_outside(r: &Root<PRefCell<Counts<P1>, P1>, P1>) -> Vec<String> {
        let counts = r.borrow();
        counts.iter().filter(|(_, count)| **count > 1).map(|(word, _)| word.to_string()).collect()
    }
    fn cells_as_values(r: &Root<PHashMap<u32, PCell<u32, P1>, P1>, P1>) -> u32 {
        r.tx(|j, cells| cells.values().for_each(|cell| cell.set(1, j))).unwrap();
        r[&7].get()
    }
    fn ordered<K: PSafe<P> + Ord, V: PSafe<P>, P: MemPool>(map: &PBTreeMap<K, V, P>) -> Option<(&K, &K)> {
        Some((map.first_key_value()?.0, map.keys().next_back()?))
    }
    fn a_queue(r: &Root<PMutex<PBTreeMap<(u32, u64), PString<P1>, P1>, P1>, P1>) -> Option<String> {
        r.tx(|j, jobs| jobs.lock(j).pop_first(j).map(|(_, job)| job.to_string())).unwrap()
    }
    fn in_a_range(r: &Root<PRefCell<PBTreeMap<u32, PCell<u32, P1>, P1>, P1>, P1>) -> u32 {
        r.tx(|j, map| map.borrow_mut(j).range_mut(1..=9, j).for_each(|(_, value)| *value.get_mut() += 1)).unwrap();
        r.tx(|j, map| map.borrow().range(3..).for_each(|(_, value)| value.set(1, j))).unwrap();
        let map = r.borrow();
        ordered(&map).map_or(0, |(first, last)| last - first)
    }
    fn maps_in_maps(r: &Root<PRefCell<PHashMap<u32, PHashMap<u32, Pbox<u32, P1>, P1>, P1>, P1>, P1>) {
        r.tx(|j, map| {
            let mut map = map.borrow_mut(j);
            let inner = map.get_or_insert_with(1, PHashMap::new, j);
            inner.insert(2, Pbox::new(3, j), j);
            let moved = map.remove(&1, j).unwrap();
            map.insert(4, moved, j);
        })
        .unwrap();
    }
}

// Types that change: plain ones, generic ones, enums, chains.
mod migrations {
    use super::*;
    #[derive(PSafe)]
    #[persist(version = 3, from = PairV2<T, P>)]
    #[repr(C)]
    struct Pair<T: PSafe<P>, P: MemPool> {
        one: T,
        other: Option<Pbox<T, P>>,
        next: Link<Pair<T, P>, P>,
    }
    #[derive(PSafe)]
    #[persist(version = 2, name = "Pair", from = PairV1<T, P>)]
    #[repr(C)]
    struct PairV2<T: PSafe<P>, P: MemPool> {
        one: T,
        next: Link<Pair<T, P>, P>,
    }
    #[derive(PSafe)]
    #[persist(name = "Pair")]
    #[repr(transparent)]
    struct PairV1<T: PSafe<P>, P: MemPool>(PCell<T, P>);
    impl<T: PSafe<P>, P: MemPool> Migrate<PairV2<T, P>, P> for Pair<T, P> {
        fn migrate(old: PairV2<T, P>, _: &Journal<P>) -> Self {
            Pair { one: old.one, other: None, next: old.next }
        }
    }
    impl<T: PSafe<P>, P: MemPool> Migrate<PairV1<T, P>, P> for PairV2<T, P> {
        fn migrate(old: PairV1<T, P>, _: &Journal<P>) -> Self {
            PairV2 { one: old.0.into_inner(), next: PRefCell::new(None) }
        }
    }
    #[derive(PSafe)]
    #[persist(version = 2, from = StateV1)]
    #[repr(u8)]
    enum State<const N: usize> {
        Idle,
        Busy([u8; N]),
    }
    #[derive(PSafe)]
    #[persist(name = "State")]
    #[repr(u8)]
    enum StateV1 {
        Idle,
        Gone,
    }
    impl<const N: usize, P: MemPool> Migrate<StateV1, P> for State<N> {
        fn migrate(old: StateV1, _: &Journal<P>) -> Self {
            match old {
                StateV1::Idle => State::Idle,
                StateV1::Gone => State::Busy([0; N]),
            }
        }
    }
    fn opened(store: &everbyte_store::Store) -> Result<Root<Pair<State<3>, P1>, P1>> {
        println!("{}", P1::rehearse_migration::<Pair<State<3>, P1>>(store, "pair")?);
        let pair = P1::open_migrating::<Pair<State<3>, P1>>(store, "pair")?;
        if let Some(done) = pair.migrated() {
            println!("{done}");
        }
        Ok(pair)
    }
}
