//! Hostile and wrong input, and values that cannot be written.

use crate::common::store;
use crate::require_whole;
use everbyte_object::{PBTreeMap, PDeserialize, PRefCell, PSafe, PString, PVec, Pbox, Pool, pool};
use everbyte_store::Store;
use serde::Serialize;
use serde::de::value::{Error, SeqDeserializer};
use serde_json::Deserializer;

#[derive(PSafe, PDeserialize, Serialize)]
#[repr(C)]
struct Chain<P: everbyte_object::MemPool> {
    number: u32,
    next: Option<Pbox<Chain<P>, P>>,
}

pool!(Wrong);

#[test]
fn wrong_values_are_errors_that_say_what_was_expected() {
    let store = store();
    let root = Wrong::create::<PCellOf>(&store, "pool", |_| PRefCell::new(None)).unwrap();
    type PCellOf = PRefCell<Option<Pbox<Chain<Wrong>, Wrong>>, Wrong>;
    for (text, says) in [
        (r#"{"number":-1}"#, "invalid value"),
        (r#"{"number":"one"}"#, "invalid type"),
        (r#"{"next":null}"#, "missing field `number`"),
        (r#"{"number":1,"number":2}"#, "duplicate field `number`"),
        (r#"{"number":1,"next":[2,["three"]]}"#, "invalid type"),
        (r#"{"number":1,"next":[2,[3]]}"#, ""), // a field that may be absent may be so at the end of a sequence
        (r#"[1,[2]]"#, ""),
        (r#"7"#, "`Chain`"),
    ] {
        root.tx(|j, _| {
            let found = j.deserialize::<Chain<_>, _>(&mut Deserializer::from_str(text));
            match found {
                Ok(_) => assert_eq!(says, "", "{text}"),
                Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{text}: {error}"),
            }
        })
        .unwrap();
    }
    // as deep as the format allows: 127 levels of JSON
    let deep = |levels: usize| format!("{}null{}", r#"{"number":1,"next":"#.repeat(levels), "}".repeat(levels));
    root.tx(|j, _| {
        assert!(j.deserialize::<Chain<_>, _>(&mut Deserializer::from_str(&deep(100))).is_ok());
        assert!(j.deserialize::<Chain<_>, _>(&mut Deserializer::from_str(&deep(200))).is_err());
    })
    .unwrap();
    drop(root);
    require_whole(&store, "pool");
}

/// An iterator that claims more than any memory holds.
struct Claims(u64);

impl Iterator for Claims {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.checked_sub(1)?;
        Some(self.0)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, Some(usize::MAX))
    }
}

/// A sequence, whose end is not compared with what it claimed.
struct Sequence<'s>(&'s mut SeqDeserializer<Claims, Error>);

impl<'de> serde::Deserializer<'de> for Sequence<'_> {
    type Error = Error;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self.0)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

pool!(Hints);

#[test]
fn a_claimed_length_is_not_believed() {
    let store = store();
    let root = Hints::create::<PVec<u64, Hints>>(&store, "pool", |j| {
        let mut items = SeqDeserializer::<_, Error>::new(Claims(5));
        j.deserialize(Sequence(&mut items)).unwrap()
    });
    let root = root.unwrap();
    assert_eq!(root.as_slice(), [4, 3, 2, 1, 0]);
    drop(root);
    require_whole(&store, "pool");
}

pool!(Full);

/// A pool that fills up while a value is read rolls back, and can be used.
#[test]
fn a_full_pool_rolls_back() {
    let store: Store = store();
    let options = everbyte_object::PoolOptions { span: Some((1 << 20).into()), ..Default::default() };
    type Root = PRefCell<PVec<PString<Full>, Full>, Full>;
    let root = Full::create_with::<Root>(&store, "pool", &options, |_| PRefCell::new(PVec::new())).unwrap();
    let text = serde_json::to_string(&vec!["x".repeat(1000); 4000]).unwrap();
    let full = root.tx(|j, root| {
        *root.borrow_mut(j) = j.deserialize(&mut Deserializer::from_str(&text)).expect("the text is right");
    });
    assert!(full.is_err());
    assert!(root.borrow().is_empty());
    root.tx(|j, root| {
        *root.borrow_mut(j) = j.deserialize(&mut Deserializer::from_str(r#"["room"]"#)).expect("the text is right");
    })
    .unwrap();
    assert_eq!(root.borrow()[0], *"room");
    drop(root);
    require_whole(&store, "pool");
}

pool!(Borrowed);

#[test]
fn what_cannot_be_written_is_an_error() {
    let store = store();
    type Root = (PRefCell<u8, Borrowed>, PBTreeMap<(u8, u8), u8, Borrowed>);
    let root = Borrowed::create::<Root>(&store, "pool", |j| (PRefCell::new(1), PBTreeMap::from_iter([((1, 2), 3)], j)));
    let root = root.unwrap();
    root.tx(|j, root| {
        let _borrowed = root.0.borrow_mut(j);
        let text = serde_json::to_string(&root.0).unwrap_err().to_string();
        assert!(text.contains("borrowed mutably"), "{text}");
    })
    .unwrap();
    assert!(serde_json::to_string(&root.1).is_err(), "JSON has no such keys");
}

#[derive(PSafe, PDeserialize, Serialize, Debug, PartialEq, Clone, Copy)]
#[repr(C)]
struct Two(u8, u8);

#[derive(PSafe, PDeserialize, Serialize, Debug, PartialEq, Clone, Copy)]
#[repr(u8)]
enum Skipping {
    One(#[serde(skip)] u8),
    Two(u8, #[serde(skip)] u8),
}

pool!(Forms);

/// Formats that hand over whatever they find: another form than the type's is an error.
#[test]
fn another_form_is_an_error_in_every_format() {
    use serde::de::value::{MapDeserializer, UnitDeserializer};
    let store = store();
    let root = Forms::create::<u8>(&store, "pool", |_| 0).unwrap();
    root.tx(|j, _| {
        let map = || MapDeserializer::<_, Error>::new([("a", 1_u8), ("b", 2)].into_iter());
        assert!(j.deserialize::<Two, _>(map()).is_err());
        assert!(j.deserialize::<Two, _>(UnitDeserializer::<Error>::new()).is_err());
        assert!(j.deserialize::<Chain<_>, _>(UnitDeserializer::<Error>::new()).is_err());
        assert!(j.deserialize::<std::marker::PhantomData<u8>, _>(&mut Deserializer::from_str("7")).is_err());
        for (value, text) in [(Skipping::One(0), r#""One""#), (Skipping::Two(5, 0), r#"{"Two":[5]}"#)] {
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            assert_eq!(j.deserialize::<Skipping, _>(&mut Deserializer::from_str(text)).unwrap(), value);
        }
    })
    .unwrap();
}
