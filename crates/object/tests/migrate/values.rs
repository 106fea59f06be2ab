//! Values under migration: fields that grow, split and move, variants that are added, versions that
//! are skipped.

use crate::common::store;
use crate::whole;
use everbyte_object::{Error, Journal, MemPool, Migrate, PCell, PRefCell, PSafe, PString, PVec, Pbox, Pool, pool};

/// A list whose values grow.
mod list {
    use super::*;

    pub(super) mod v1 {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Node<P: MemPool> {
            pub val: i32,
            pub next: PRefCell<Option<Pbox<Node<P>, P>>, P>,
        }
        pub(crate) fn append<P: MemPool>(node: &Node<P>, val: i32, j: &Journal<P>) {
            let mut next = node.next.borrow_mut(j);
            match &*next {
                Some(next) => append(next, val, j),
                None => *next = Some(Pbox::new(Node { val, next: PRefCell::new(None) }, j)),
            }
        }
    }

    pub(super) mod v2 {
        use super::*;
        #[derive(PSafe)]
        #[persist(version = 2, from = NodeV1<P>)]
        #[repr(C)]
        pub(crate) struct Node<P: MemPool> {
            pub val: i64,
            pub changes: u32,
            pub next: PRefCell<Option<Pbox<Node<P>, P>>, P>,
        }
        #[derive(PSafe)]
        #[persist(version = 1, name = "Node")]
        #[repr(C)]
        pub(crate) struct NodeV1<P: MemPool> {
            val: i32,
            next: PRefCell<Option<Pbox<Node<P>, P>>, P>,
        }
        impl<P: MemPool> Migrate<NodeV1<P>, P> for Node<P> {
            fn migrate(old: NodeV1<P>, _: &Journal<P>) -> Node<P> {
                Node { val: i64::from(old.val) << 32, changes: 1, next: old.next }
            }
        }
        pub(crate) fn values<P: MemPool>(node: &Node<P>) -> Vec<(i64, u32)> {
            let next = node.next.borrow().as_ref().map_or(Vec::new(), |next| values(next));
            [vec![(node.val, node.changes)], next].concat()
        }
    }
}

#[test]
fn a_field_grows_in_every_node_of_a_list() {
    pool!(P);
    let store = store();
    let head = P::create::<list::v1::Node<P>>(&store, "list", |_| list::v1::Node { val: 1, next: PRefCell::new(None) });
    let head = head.unwrap();
    (2..5).for_each(|val| head.tx(|j, head| list::v1::append(head, val, j)).unwrap());
    drop(head);

    let error = P::open::<list::v2::Node<P>>(&store, "list").unwrap_err();
    assert!(matches!(&error, Error::OlderVersion { steps, .. } if steps == "`Node` 1 -> 2"), "{error}");
    let head = P::open_migrating::<list::v2::Node<P>>(&store, "list").unwrap();
    assert_eq!(list::v2::values(&head), [(1 << 32, 1), (2 << 32, 1), (3 << 32, 1), (4 << 32, 1)]);
    let done = head.migrated().unwrap();
    assert_eq!(done.to_string(), "Node 1 -> 2: 4 values; 4 blocks made anew: 128 bytes for 64 bytes");
    whole(&head);
    drop(head);

    let error = P::open::<list::v1::Node<P>>(&store, "list").unwrap_err();
    assert!(error.to_string().contains("version 2 of `Node`; this program knows 1"), "{error}");
    let error = P::open_migrating::<list::v1::Node<P>>(&store, "list").unwrap_err();
    assert!(matches!(error, Error::NewerVersion { found: 2, known: 1, .. }), "{error}");
    let head = P::open_migrating::<list::v2::Node<P>>(&store, "list").unwrap();
    assert_eq!((head.migrated(), list::v2::values(&head).len()), (None, 4));
}

#[test]
fn a_list_of_any_length_is_migrated_without_overflowing_the_stack() {
    pool!(P);
    let store = store();
    let head = P::create::<list::v1::Node<P>>(&store, "list", |j| {
        let node = |next| list::v1::Node { val: 7, next: PRefCell::new(next) };
        let all = (0..50_000).fold(None, |next, _| Some(Pbox::new(node(next), j)));
        node(all)
    });
    drop(head.unwrap());
    let head = P::open_migrating::<list::v2::Node<P>>(&store, "list").unwrap();
    assert_eq!(head.migrated().unwrap().steps[0].values, 50_001);
    whole(&head);
}

/// A name in one text becomes two: the function allocates, and drops the parts that it does not
/// keep.
#[test]
fn a_field_is_split_in_a_vector() {
    mod v1 {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Book<P: MemPool> {
            pub entries: PRefCell<PVec<Entry<P>, P>, P>,
            pub title: PString<P>,
        }
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Entry<P: MemPool> {
            pub name: PString<P>,
            pub lines: PVec<PString<P>, P>,
        }
    }
    mod v2 {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Book<P: MemPool> {
            pub entries: PRefCell<PVec<Entry<P>, P>, P>,
            pub title: PString<P>,
        }
        #[derive(PSafe)]
        #[persist(version = 2, from = EntryV1<P>)]
        #[repr(C)]
        pub(crate) struct Entry<P: MemPool> {
            pub first: PString<P>,
            pub last: PString<P>,
            pub lines: PVec<PString<P>, P>,
        }
        #[derive(PSafe)]
        #[persist(version = 1, name = "Entry")]
        #[repr(C)]
        pub(crate) struct EntryV1<P: MemPool> {
            name: PString<P>,
            lines: PVec<PString<P>, P>,
        }
        impl<P: MemPool> Migrate<EntryV1<P>, P> for Entry<P> {
            fn migrate(old: EntryV1<P>, j: &Journal<P>) -> Entry<P> {
                let (first, last) = old.name.split_once(' ').unwrap_or((&old.name, ""));
                Entry { first: PString::from_str(first, j), last: PString::from_str(last, j), lines: old.lines }
            }
        }
    }
    pool!(P);
    let store = store();
    let book = P::create::<v1::Book<P>>(&store, "book", |j| v1::Book {
        entries: PRefCell::new(PVec::from_iter(
            ["Ada Lovelace", "Plato"].map(|name| v1::Entry {
                name: PString::from_str(name, j),
                lines: PVec::from_iter([PString::from_str("somewhere", j)], j),
            }),
            j,
        )),
        title: PString::from_str("people", j),
    });
    drop(book.unwrap());
    let book = P::open_migrating::<v2::Book<P>>(&store, "book").unwrap();
    let entries = book.entries.borrow();
    let found: Vec<_> =
        entries.iter().map(|one| (one.first.as_str(), one.last.as_str(), one.lines[0].as_str())).collect();
    assert_eq!(found, [("Ada", "Lovelace", "somewhere"), ("Plato", "", "somewhere")]);
    assert_eq!((book.title.as_str(), entries.capacity() >= 2), ("people", true));
    drop(entries);
    whole(&book);
    book.tx(|j, book| {
        let more = v2::Entry { first: PString::new(), last: PString::new(), lines: PVec::new() };
        book.entries.borrow_mut(j).push(more, j);
    })
    .unwrap();
    whole(&book);
}

/// Tags may be numbered anew; a variant may change its fields.
#[test]
fn a_variant_is_added_to_an_enum() {
    mod v1 {
        use super::*;
        #[derive(PSafe)]
        #[repr(u8)]
        pub(crate) enum Shape<P: MemPool> {
            Point,
            Circle(f64),
            Named { name: PString<P>, inside: Option<Pbox<Shape<P>, P>> },
        }
    }
    mod v2 {
        use super::*;
        #[derive(PSafe)]
        #[persist(version = 2, from = ShapeV1<P>)]
        #[repr(u16)]
        pub(crate) enum Shape<P: MemPool> {
            Square(f32) = 10,
            Ellipse(f64, f64),
            Named { name: PString<P>, inside: Option<Pbox<Shape<P>, P>> },
            Point,
        }
        #[derive(PSafe)]
        #[persist(name = "Shape")]
        #[repr(u8)]
        pub(crate) enum ShapeV1<P: MemPool> {
            Point,
            Circle(f64),
            Named { name: PString<P>, inside: Option<Pbox<Shape<P>, P>> },
        }
        impl<P: MemPool> Migrate<ShapeV1<P>, P> for Shape<P> {
            fn migrate(old: ShapeV1<P>, _: &Journal<P>) -> Shape<P> {
                match old {
                    ShapeV1::Point => Shape::Point,
                    ShapeV1::Circle(radius) => Shape::Ellipse(radius, radius),
                    ShapeV1::Named { name, inside } => Shape::Named { name, inside },
                }
            }
        }
        impl<P: MemPool> Shape<P> {
            pub(crate) fn text(&self) -> String {
                match self {
                    Shape::Square(side) => format!("square {side}"),
                    Shape::Ellipse(one, other) => format!("ellipse {one} {other}"),
                    Shape::Named { name, inside: None } => format!("{name}"),
                    Shape::Named { name, inside: Some(inside) } => format!("{name}({})", inside.text()),
                    Shape::Point => "point".into(),
                }
            }
        }
    }
    pool!(P);
    let store = store();
    let shapes = P::create::<PVec<v1::Shape<P>, P>>(&store, "shapes", |j| {
        let inside = Some(Pbox::new(v1::Shape::Circle(2.5), j));
        let named = v1::Shape::Named { name: PString::from_str("c", j), inside };
        PVec::from_iter([v1::Shape::Point, v1::Shape::Circle(1.5), named], j)
    });
    drop(shapes.unwrap());
    let shapes = P::open_migrating::<PVec<v2::Shape<P>, P>>(&store, "shapes").unwrap();
    let texts: Vec<String> = shapes.iter().map(v2::Shape::text).collect();
    assert_eq!(texts, ["point", "ellipse 1.5 1.5", "c(ellipse 2.5 2.5)"]);
    whole(&shapes);
}

/// A chain of versions: each pool takes the steps that it needs, by value, without a block between.
#[test]
fn versions_are_skipped_by_taking_each_step() {
    mod v1 {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Count<P: MemPool> {
            pub n: PCell<u8, P>,
            pub below: Option<Pbox<Count<P>, P>>,
        }
    }
    mod v2 {
        use super::*;
        #[derive(PSafe)]
        #[persist(version = 2, from = CountV1<P>)]
        #[repr(C)]
        pub(crate) struct Count<P: MemPool> {
            pub n: PCell<u16, P>,
            pub below: Option<Pbox<Count<P>, P>>,
        }
        #[derive(PSafe)]
        #[persist(name = "Count")]
        #[repr(C)]
        pub(crate) struct CountV1<P: MemPool> {
            n: PCell<u8, P>,
            below: Option<Pbox<Count<P>, P>>,
        }
        impl<P: MemPool> Migrate<CountV1<P>, P> for Count<P> {
            fn migrate(old: CountV1<P>, _: &Journal<P>) -> Self {
                Count { n: PCell::new(u16::from(old.n.get()) + 1000), below: old.below }
            }
        }
    }
    mod v3 {
        use super::*;
        #[derive(PSafe)]
        #[persist(version = 3, from = CountV2<P>)]
        #[repr(C)]
        pub(crate) struct Count<P: MemPool> {
            pub n: PCell<u64, P>,
            pub below: Option<Pbox<Count<P>, P>>,
        }
        #[derive(PSafe)]
        #[persist(version = 2, name = "Count", from = CountV1<P>)]
        #[repr(C)]
        pub(crate) struct CountV2<P: MemPool> {
            n: PCell<u16, P>,
            below: Option<Pbox<Count<P>, P>>,
        }
        impl<P: MemPool> Migrate<CountV2<P>, P> for Count<P> {
            fn migrate(old: CountV2<P>, _: &Journal<P>) -> Self {
                Count { n: PCell::new(u64::from(old.n.get()) + 100_000), below: old.below }
            }
        }
        #[derive(PSafe)]
        #[persist(name = "Count")]
        #[repr(C)]
        pub(crate) struct CountV1<P: MemPool> {
            n: PCell<u8, P>,
            below: Option<Pbox<Count<P>, P>>,
        }
        impl<P: MemPool> Migrate<CountV1<P>, P> for CountV2<P> {
            fn migrate(old: CountV1<P>, _: &Journal<P>) -> Self {
                CountV2 { n: PCell::new(u16::from(old.n.get()) + 1000), below: old.below }
            }
        }
        pub(crate) fn values<P: MemPool>(count: &Count<P>) -> Vec<u64> {
            let below = count.below.as_ref().map_or(Vec::new(), |below| values(below));
            [vec![count.n.get()], below].concat()
        }
    }
    pool!(P);
    let store = store();
    for name in ["one", "two"] {
        let made = P::create::<v1::Count<P>>(&store, name, |j| v1::Count {
            n: PCell::new(1),
            below: Some(Pbox::new(v1::Count { n: PCell::new(2), below: None }, j)),
        });
        drop(made.unwrap());
    }
    let steps = |name: &str| match P::open::<v3::Count<P>>(&store, name) {
        Err(Error::OlderVersion { steps, .. }) => steps,
        other => panic!("{other:?}"),
    };
    assert_eq!(P::open_migrating::<v2::Count<P>>(&store, "two").unwrap().n.get(), 1001);
    assert_eq!(steps("one"), "`Count` 2 -> 3, `Count` 1 -> 2");
    assert_eq!(steps("two"), "`Count` 2 -> 3");
    for name in ["one", "two"] {
        let count = P::open_migrating::<v3::Count<P>>(&store, name).unwrap();
        assert_eq!(v3::values(&count), [101_001, 101_002]);
        whole(&count);
    }
}

/// Values that move between objects: the older types are kept as they were, pointers and all, and
/// the function takes them apart.
#[test]
fn a_whole_graph_is_migrated_by_its_root() {
    mod v1 {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Shelf<P: MemPool> {
            pub books: PVec<Pbox<Book<P>, P>, P>,
        }
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Book<P: MemPool> {
            pub title: PString<P>,
            pub place: u32,
        }
    }
    mod v2 {
        use super::*;
        #[derive(PSafe)]
        #[persist(version = 2, from = ShelfV1<P>)]
        #[repr(C)]
        pub(crate) struct Shelf<P: MemPool> {
            pub titles: PVec<(u32, PString<P>), P>,
        }
        #[derive(PSafe)]
        #[persist(name = "Shelf")]
        #[repr(C)]
        pub(crate) struct ShelfV1<P: MemPool> {
            books: PVec<Pbox<BookV1<P>, P>, P>,
        }
        #[derive(PSafe)]
        #[persist(name = "Book")]
        #[repr(C)]
        pub(crate) struct BookV1<P: MemPool> {
            title: PString<P>,
            place: u32,
        }
        impl<P: MemPool> Migrate<ShelfV1<P>, P> for Shelf<P> {
            fn migrate(mut old: ShelfV1<P>, j: &Journal<P>) -> Self {
                let books = old.books.drain(.., j).into_iter().map(|book| book.into_inner(j));
                let mut titles = PVec::from_iter(books.map(|book| (book.place, book.title)), j);
                titles.as_mut_slice(j).sort_by_key(|(place, _)| *place);
                Shelf { titles }
            }
        }
    }
    pool!(P);
    let store = store();
    let shelf = P::create::<v1::Shelf<P>>(&store, "shelf", |j| {
        let book = |(title, place)| Pbox::new(v1::Book { title: PString::from_str(title, j), place }, j);
        v1::Shelf { books: PVec::from_iter([("b", 2), ("c", 3), ("a", 1)].map(book), j) }
    });
    drop(shelf.unwrap());
    let shelf = P::open_migrating::<v2::Shelf<P>>(&store, "shelf").unwrap();
    let titles: Vec<_> = shelf.titles.iter().map(|(place, title)| (*place, title.as_str())).collect();
    assert_eq!(titles, [(1, "a"), (2, "b"), (3, "c")]);
    whole(&shelf);
}

/// A type that is called otherwise from now on.
#[test]
fn a_type_is_renamed() {
    mod v1 {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Cart {
            pub items: u32,
        }
    }
    mod v2 {
        use super::*;
        #[derive(PSafe)]
        #[persist(version = 2, from = Cart)]
        #[repr(C)]
        pub(crate) struct Basket {
            pub items: u32,
        }
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Cart {
            pub items: u32,
        }
        impl<P: MemPool> Migrate<Cart, P> for Basket {
            fn migrate(old: Cart, _: &Journal<P>) -> Self {
                Basket { items: old.items }
            }
        }
    }
    pool!(P);
    let store = store();
    drop(P::create::<PCell<v1::Cart, P>>(&store, "cart", |_| PCell::new(v1::Cart { items: 3 })).unwrap());
    let basket = P::open_migrating::<PCell<v2::Basket, P>>(&store, "cart").unwrap();
    let items = basket.tx(|j, basket| basket.replace(v2::Basket { items: 0 }, j).items).unwrap();
    assert_eq!(items, 3);
    whole(&basket);
}
