//! Tables with types.

use everbyte_kv::{Error, Kv, Typed, TypedTable};
use everbyte_media::{ErrorInfo, ErrorKind};
use everbyte_store::Store;

#[derive(Typed, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UserId {
    country: String,
    number: i64,
}

#[derive(Typed, Clone, Debug, PartialEq)]
struct User {
    name: String,
    age: u32,
}

fn id(country: &str, number: i64) -> UserId {
    UserId { country: country.into(), number }
}

fn user(name: &str) -> User {
    User { name: name.into(), age: 30 }
}

fn with_kv(body: impl FnOnce(&Kv)) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("s"), &Default::default()).unwrap();
    body(&Kv::create(&store, "kv").unwrap());
}

#[test]
fn entries_are_in_the_order_of_their_keys() {
    with_kv(|kv| {
        let users: TypedTable<UserId, User> = kv.create_typed("users").unwrap();
        let ids = [id("n", -5), id("n", 3), id("n", 300), id("no", -1), id("s", 0)];
        for id in ids.iter().rev() {
            users.put(id, &user(&format!("{id:?}"))).unwrap();
        }
        let keys = |entries: everbyte_kv::TypedRange<'_, UserId, User>| -> Vec<UserId> {
            entries.map(|entry| entry.unwrap().0).collect()
        };
        assert_eq!(keys(users.range(..).unwrap()), ids);
        assert_eq!(keys(users.range(ids[1].clone()..ids[3].clone()).unwrap()), ids[1..3]);
        assert_eq!(keys(users.range(ids[1].clone()..=ids[3].clone()).unwrap()), ids[1..=3]);
        assert_eq!(keys(users.prefix(&("n".to_string(),)).unwrap()), ids[..3], "`no` is another country");
        let back: Vec<_> = users.range(..).unwrap().rev().map(|entry| entry.unwrap()).collect();
        assert_eq!(back[0], (ids[4].clone(), user(&format!("{:?}", ids[4]))));
        assert_eq!(users.len().unwrap(), 5);
        assert_eq!(users.get(&ids[2]).unwrap().unwrap().age, 30);
        assert!(users.delete(&ids[2]).unwrap() && !users.contains(&ids[2]).unwrap());
    });
}

#[test]
fn a_string_has_its_beginnings_as_prefixes() {
    with_kv(|kv| {
        let words: TypedTable<String, ()> = kv.create_typed("words").unwrap();
        for word in ["ab", "abc", "b", ""] {
            words.put(&word.into(), &()).unwrap();
        }
        let found: Vec<_> = words.prefix("ab").unwrap().map(|entry| entry.unwrap().0).collect();
        assert_eq!(found, ["ab", "abc"]);
    });
}

#[test]
fn batches_and_snapshots_have_types() {
    with_kv(|kv| {
        let users: TypedTable<UserId, User> = kv.create_typed("users").unwrap();
        users.put(&id("n", 1), &user("old")).unwrap();
        let before = kv.snapshot();
        let mut batch = kv.batch();
        let counts: TypedTable<u8, u64> = batch.create_typed("counts").unwrap();
        assert!(batch.typed(&users).unwrap().put(&id("n", 1), &user("new")).unwrap());
        assert!(!batch.typed(&counts).unwrap().put(&1, &7).unwrap());
        assert_eq!(batch.typed(&users).unwrap().get(&id("n", 1)).unwrap(), Some(user("new")));
        assert_eq!(batch.typed(&counts).unwrap().range(..).count(), 1);
        assert!(matches!(batch.open_typed::<u8, u32>("counts"), Err(Error::OtherType { .. })));
        kv.settle(batch.commit().unwrap()).unwrap();
        assert_eq!(before.typed(&users).unwrap().get(&id("n", 1)).unwrap(), Some(user("old")));
        assert!(matches!(before.typed(&counts), Err(Error::TableGone { .. })));
        assert_eq!(counts.get(&1).unwrap(), Some(7));
        let mut batch = kv.batch();
        assert_eq!(batch.typed(&counts).unwrap().delete_range(0..=1).unwrap(), 1);
        drop(batch);
        assert_eq!(counts.len().unwrap(), 1);
    });
}

mod other {
    use everbyte_kv::Typed;

    #[derive(Typed)]
    pub(super) struct User {
        pub(super) _name: String,
    }
}

#[derive(Typed)]
#[typed(name = "User")]
struct LongUser {
    _name: String,
    _age: u64,
}

#[derive(Typed)]
#[typed(name = "User")]
struct AgedUser {
    #[typed(name = "name")]
    _name: String,
    #[typed(name = "age")]
    _age: u64,
}

#[test]
fn another_type_is_an_error_that_names_the_field() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("s"), &Default::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.create_typed::<UserId, User>("users").unwrap();
    kv.create_table("raw").unwrap();
    drop(kv);
    let kv = Kv::open(&store, "kv").unwrap();
    let kv = &kv;
    fn says<K: Typed, V: Typed>(kv: &Kv, expected: &str) {
        let error = kv.open_or_create_typed::<K, V>("users").map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), format!("the table \"users\" has other types: {expected} in this program"));
    }
    says::<UserId, AgedUser>(kv, "value.age is `u32` in the store and `u64`");
    says::<UserId, LongUser>(kv, "value is the field `name` in the store and the field `_name`");
    says::<UserId, other::User>(kv, "value is the field `name` in the store and the field `_name`");
    says::<(String, i64), User>(kv, "key is `UserId` in the store and `(String, i64)`");
    says::<UserId, Option<User>>(kv, "value is `User` in the store and `Option<User>`");
    assert!(kv.open_typed::<UserId, User>("users").is_ok());
    assert!(matches!(kv.open_typed::<UserId, User>("raw"), Err(Error::Untyped { .. })));
    assert!(matches!(kv.open_typed::<UserId, User>("none"), Err(Error::NoTable { .. })));
    assert_eq!(kv.table_types("users").unwrap().unwrap().to_string(), "UserId -> User");
    assert_eq!(kv.table_types("raw").unwrap(), None);
    assert!(matches!(kv.create_typed::<u8, u8>("users"), Err(Error::TableExists { .. })));
}

#[test]
fn bytes_that_are_no_value_are_an_error() {
    with_kv(|kv| {
        let table: TypedTable<u32, bool> = kv.create_typed("t").unwrap();
        table.untyped().put(&[0, 0, 0, 1], &[9]).unwrap();
        table.untyped().put(&[1], &[1]).unwrap();
        let error = table.get(&1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("a stored value is no encoding of its type: byte 0: a `bool`"), "{error}");
        assert!(table.range(..).unwrap().all(|entry| matches!(entry, Err(Error::Undecodable { .. }))));
        assert_eq!(table.range(..).unwrap().count(), 2, "the range goes on behind them");
    });
}

/// A named version brings the description back with the table.
#[test]
fn a_restored_table_has_its_types() {
    with_kv(|kv| {
        kv.create_typed::<u8, u8>("t").unwrap();
        kv.name_version("v").unwrap();
        kv.drop_table("t").unwrap();
        kv.create_typed::<u16, u8>("t").unwrap();
        kv.restore_version("v").unwrap();
        assert!(kv.open_typed::<u8, u8>("t").is_ok() && kv.open_typed::<u16, u8>("t").is_err());
    });
}

/// A typed table keeps its store open, as a table of bytes does; what is dropped keeps nothing.
#[test]
fn dropped_typed_tables_let_go_of_their_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let store = Store::create(&path, &Default::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let table: TypedTable<u8, u8> = kv.create_typed("t").unwrap();
    table.put(&1, &2).unwrap();
    assert!(kv.open_typed::<u8, u16>("t").is_err() && kv.open_or_create_typed::<u8, u8>("t").is_ok());
    assert_eq!(kv.table_types("t").unwrap().unwrap().to_string(), "u8 -> u8");
    {
        let held = kv.snapshot();
        let (snapshot, mut range) = (held.typed(&table).unwrap(), table.range(..).unwrap());
        assert_eq!((snapshot.get(&1).unwrap(), range.next().unwrap().unwrap()), (Some(2), (1, 2)));
        let mut batch = kv.batch();
        batch.create_typed::<u8, u8>("other").unwrap();
        batch.typed(&table).unwrap().put(&3, &4).unwrap();
    }
    drop(kv);
    store.close().unwrap();
    drop(store); // `close` leaves the store to its handles
    let error = Store::open(&path, &Default::default()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "`table` is a handle of the store: {error}");
    drop(table);
    let store = Store::open(&path, &Default::default()).unwrap();
    assert_eq!(Kv::open(&store, "kv").unwrap().open_typed::<u8, u8>("t").unwrap().get(&1).unwrap(), Some(2));
}

/// A field, a variant or an element more at the end makes another type, in both directions.
#[test]
fn a_type_with_one_part_more_is_another() {
    #[derive(Typed)]
    enum Kind {
        One,
    }
    mod more {
        #[derive(everbyte_kv::Typed)]
        pub(super) struct User {
            pub(super) name: String,
            pub(super) age: u32,
            pub(super) city: String,
        }
        #[derive(everbyte_kv::Typed)]
        pub(super) enum Kind {
            One,
            Two,
        }
    }
    fn differ<One: Typed, Other: Typed>(kv: &Kv, at: &str) {
        for turn in 0..2 {
            let refused = match turn {
                0 => {
                    kv.create_typed::<u8, One>("t").unwrap();
                    kv.open_typed::<u8, Other>("t").map(drop)
                }
                _ => {
                    kv.create_typed::<u8, Other>("t").unwrap();
                    kv.open_typed::<u8, One>("t").map(drop)
                }
            };
            assert!(matches!(refused, Err(Error::OtherType { detail, .. }) if detail.at == at));
            kv.drop_table("t").unwrap();
        }
    }
    with_kv(|kv| {
        differ::<User, more::User>(kv, "value");
        differ::<Kind, more::Kind>(kv, "value");
        differ::<[u8; 2], [u8; 3]>(kv, "value");
        differ::<(u8, User), (u8, more::User)>(kv, "value.1");
    });
    let _ = (Kind::One, more::Kind::One, more::Kind::Two);
    let more::User { .. } = more::User { name: String::new(), age: 0, city: String::new() };
}

/// A tuple of first fields is a prefix of whole fields: the end of its last string counts.
#[test]
fn a_tuple_of_first_fields_is_no_prefix_of_a_longer_string() {
    with_kv(|kv| {
        let table: TypedTable<(String, u8), ()> = kv.create_typed("t").unwrap();
        for (word, number) in [("a", 1), ("a", 2), ("ab", 1), ("", 9)] {
            table.put(&(word.into(), number), &()).unwrap();
        }
        let of = |word: &str| {
            table.prefix(&(word.to_string(),)).unwrap().map(|entry| entry.unwrap().0.1).collect::<Vec<_>>()
        };
        assert_eq!((of("a"), of("ab"), of("")), (vec![1, 2], vec![1], vec![9]));
    });
}
