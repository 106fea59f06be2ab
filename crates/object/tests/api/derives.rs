//! What the derive accepts: markers, pools bounded by other names, enums with any tag.

use crate::common::{description, store};
use everbyte_object::{MemPool, MemPool as AnyPool, PCell, PSafe, Pbox, Pool, pool};
use std::marker::PhantomData;

pool!(P1);

/// Not persistent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Metres;
struct User(#[allow(dead_code)] String);

#[derive(PSafe, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Quantity<U>(f64, PhantomData<U>);

#[derive(PSafe)]
#[repr(C)]
struct Id<T, P: MemPool> {
    number: u64,
    of: PhantomData<fn(T) -> T>,
    pool: PhantomData<P>,
}

#[derive(PSafe)]
#[persist(marker = U)]
#[repr(u8)]
enum Length<U> {
    None(PhantomData<U>),
    Some { of: Quantity<U>, unit: PhantomData<*const U> },
}

trait Database: MemPool {}
impl<P: MemPool> Database for P {}

#[derive(PSafe)]
#[repr(C)]
struct Named<P: Database>(Pbox<u64, P>);

#[derive(PSafe)]
#[repr(C)]
struct Renamed<P: AnyPool>(Option<Pbox<u64, P>>);

#[derive(PSafe)]
#[persist(pool = Where)]
#[repr(C)]
struct Told<Where: Database> {
    of: Renamed<Where>,
}

#[derive(PSafe)]
#[repr(C)]
struct All<P: MemPool> {
    way: PCell<Quantity<Metres>, P>,
    user: Id<User, P>,
    length: Length<Metres>,
    named: Named<P>,
    renamed: Renamed<P>,
    told: Told<P>,
}

#[test]
fn markers_have_no_bytes_and_need_no_bound() {
    let store = store();
    let root = P1::create::<All<P1>>(&store, "all", |j| All {
        way: PCell::new(Quantity(2.5, PhantomData)),
        user: Id { number: 7, of: PhantomData, pool: PhantomData },
        length: Length::Some { of: Quantity(1.5, PhantomData), unit: PhantomData },
        named: Named(Pbox::new(1, j)),
        renamed: Renamed(None),
        told: Told { of: Renamed(Some(Pbox::new(2, j))) },
    });
    root.unwrap().tx(|j, all| all.way.set(Quantity(all.way.get().0 * 2.0, PhantomData), j)).unwrap();
    let root = P1::open::<All<P1>>(&store, "all").unwrap();
    assert_eq!((root.way.get().0, root.user.number, *root.named.0), (5.0, 7, 1));
    assert!(matches!(&root.length, Length::Some { of: Quantity(1.5, _), .. }));
    assert_eq!(root.told.of.0.as_deref(), Some(&2));
    assert_eq!(root.check().unwrap(), []);
    let text = description(&store, "all");
    assert!(text.contains("Quantity 8 8 { 0: f64 @0; 1: PhantomData @8 }"), "{text}");
    let _ = Length::<Metres>::None(PhantomData);
    let _ = User(String::new());
}
