//! Everyday programs that should compile: plain types, markers, collections, bodies that capture.
#[path = "common.rs"]
mod common;
use common::*;
use std::marker::PhantomData;

type Fallible<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

mod plain {
    use super::*;
    #[derive(PSafe)]
    #[repr(C)]
    struct Numbers(std::num::Wrapping<u32>, std::num::NonZeroU8, std::num::NonZeroUsize, std::num::NonZeroI32);
    #[derive(PSafe)]
    #[repr(C)]
    struct Times(std::time::Duration, std::time::SystemTime, std::net::Ipv4Addr, std::cmp::Ordering);
    #[derive(PSafe)]
    #[repr(C)]
    struct Descending<P: MemPool>(PBTreeMap<std::cmp::Reverse<u64>, u64, P>);
    #[derive(PSafe)]
    #[repr(C)]
    struct Ranges(std::ops::Range<u64>, (u8, u8, u8, u8, u8, u8, u8, u8, u8));
    #[derive(PSafe)]
    #[repr(usize)]
    enum Letter {
        A,
        B,
    }
}

mod markers {
    use super::*;
    struct Metres;
    #[derive(PSafe, Clone, Copy)]
    #[repr(C)]
    struct Quantity<U>(f64, PhantomData<U>);
    #[derive(PSafe)]
    #[repr(C)]
    struct Way(Quantity<Metres>);
    #[derive(PSafe)]
    #[repr(C)]
    struct Made<U>(f64, PhantomData<fn() -> U>);
    #[derive(PSafe)]
    #[repr(C)]
    struct Id<P: MemPool> {
        n: u64,
        p: PhantomData<P>,
    }
    struct User;
    #[derive(PSafe)]
    #[repr(C)]
    struct Of<T: 'static> {
        n: u64,
        p: PhantomData<T>,
    }
    fn open(r: &Root<PRefCell<Of<User>, P1>, P1>) {
        r.tx(|_, _| ()).unwrap();
    }
    use everbyte_object::MemPool as Mp;
    #[derive(PSafe)]
    #[repr(C)]
    struct Renamed<P: Mp>(Pbox<u64, P>);
    trait MyPool: MemPool {}
    impl<P: MemPool> MyPool for P {}
    #[derive(PSafe)]
    #[repr(C)]
    struct Own<P: MyPool>(Pbox<u64, P>);
}

mod collections {
    use super::*;
    type Cell<T> = Root<PRefCell<T, P1>, P1>;
    fn entry(r: &Cell<PHashMap<u64, u64, P1>>) {
        r.tx(|j, m| *m.borrow_mut(j).entry(5, j).or_insert(0) += 1).unwrap();
    }
    fn sort_and_set(r: &Cell<PVec<u64, P1>>) {
        r.tx(|j, v| {
            v.borrow_mut(j).sort(j);
            v.borrow_mut(j)[0] = 5;
            if let [first, .., last] = &v.borrow()[..] {
                assert!(first <= last);
            }
        })
        .unwrap();
    }
    fn consume(r: &Cell<PVec<Pbox<u64, P1>, P1>>) {
        r.tx(|j, v| v.take(j).into_iter().map(|x| *x).sum::<u64>()).unwrap();
    }
    fn part(r: &Cell<(u64, u64)>) {
        r.tx(|j, m| *PRefMut::map(m.borrow_mut(j), |t| &mut t.0) = 1).unwrap();
    }
    fn others<P: MemPool>(a: &PHashSet<u64, P>, b: &PVecDeque<u64, P>, c: &PBinaryHeap<u64, P>, d: &PBTreeSet<u64, P>) {}
    fn sent(v: &PBTreeMap<u64, u64, P1>) -> u64 {
        thread::scope(|s| {
            let it = v.iter();
            s.spawn(move || it.map(|x| x.1).sum::<u64>()).join().unwrap()
        })
    }
    fn text<P: MemPool>(s: &PString<P>, t: &String, m: &PHashMap<PString<P>, u64, P>) -> Option<u64> {
        (s == t).then(|| m.get(t.as_str()).copied()).flatten()
    }
    fn said<P: MemPool>(j: &Journal<P>) -> (PString<P>, PVec<u64, P>) {
        (PString::from("text", j), PVec::from([1, 2, 3], j))
    }
}

mod clones {
    use super::*;
    // What points to a value that is cloned, and to text of the heap.
    fn of_a_box<P: MemPool>(boxed: Pbox<u64, P>, text: &PString<P>) -> (u64, String) {
        (boxed.clone(), text.to_string())
    }
    fn by_a_journal<P: MemPool>(text: &PString<P>, j: &Journal<P>) -> PString<P> {
        text.pclone(j)
    }
    fn of_keys<P: MemPool, K: PSafe<P> + Ord + Clone + std::borrow::Borrow<str>>(m: &PBTreeMap<K, u64, P>) -> Vec<K> {
        m.get("one").map(|_| m.keys().cloned().collect()).unwrap_or_default()
    }
}

mod forms {
    use super::*;
    #[derive(PSafe, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(C)]
    struct Peer {
        address: Stored<std::net::SocketAddr>,
        name: ShortString<31>,
        last: PResult<u32, ShortString<7>>,
    }
    fn known<P: MemPool>(peers: &PHashMap<ShortString<31>, Peer, P>, name: &str) -> Option<std::net::SocketAddr> {
        peers.get(name).map(|peer| peer.address.get())
    }
}

mod bodies {
    use super::*;
    fn counter(r: &Root<PCell<u64, P1>, P1>) {
        let mut n = 0;
        for i in 0..3 {
            r.tx(|j, c| {
                c.set(i, j);
                n += 1;
            })
            .unwrap();
        }
    }
    fn question(r: &Root<PCell<u64, P1>, P1>, s: &str) -> Fallible<()> {
        r.attempt(|j, c| {
            c.set(s.parse()?, j);
            Ok(())
        })?;
        Ok(())
    }
    fn dynamic(r: &Root<PCell<u64, P1>, P1>, g: &dyn Fn(u64) -> u64) {
        r.tx(|j, c| c.set(g(1), j)).unwrap();
    }
    fn generic(r: &Root<PCell<u64, P1>, P1>, g: impl Fn(u64) -> u64) {
        r.tx(|j, c| c.set(g(1), j)).unwrap();
    }
    struct App {
        root: Root<PCell<u64, P1>, P1>,
        cache: RefCell<u64>,
        n: u64,
    }
    impl App {
        fn name(&self) -> u64 {
            *self.cache.borrow()
        }
        fn by_a_method(&self) {
            self.root.tx(|j, c| c.set(self.name(), j)).unwrap();
        }
        fn by_a_mutable_one(&mut self) {
            let n = self.root.tx(|j, c| {
                c.set(self.n, j);
                self.n + 1
            });
            self.n = n.unwrap();
        }
    }
    fn reader(r: &Root<PCell<u64, P1>, P1>, g: &mut dyn std::io::BufRead) {
        r.tx(|j, c| {
            let mut s = String::new();
            g.read_line(&mut s).unwrap();
            c.set(1, j);
        })
        .unwrap();
    }
    fn iterator(r: &Root<PRefCell<PVec<u64, P1>, P1>, P1>, input: &mut dyn Iterator<Item = u64>) {
        r.tx(|j, l| l.borrow_mut(j).extend(input, j)).unwrap();
    }
    fn receiver(r: &Root<PMutex<PVec<u64, P1>, P1>, P1>, rx: &mpsc::Receiver<u64>) {
        r.tx(|j, l| l.lock(j).push(rx.recv().unwrap(), j)).unwrap();
    }
    #[derive(PSafe)]
    #[repr(C)]
    struct Tree<P: MemPool> {
        parent: PRefCell<Option<parc::PWeak<Tree<P>, P>>, P>,
        value: u64,
    }
    fn back(r: &Root<Parc<Tree<P1>, P1>, P1>) -> u64 {
        r.read(|reader, tree| {
            let parent = tree.parent.borrow();
            parent.as_ref().and_then(|parent| parent.get(reader)).map_or(0, |parent| parent.value)
        })
        .unwrap()
    }
}
