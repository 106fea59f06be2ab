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

pool!(Hints);

#[test]
fn a_claimed_length_is_not_believed() {
    let store = store();
    let root = Hints::create::<PVec<u64, Hints>>(&store, "pool", |j| {
        j.deserialize(SeqDeserializer::<_, Error>::new(Claims(5))).unwrap_or_else(|_| PVec::new())
    });
    drop(root.unwrap());
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
