//! Text as the dump of a typed pool: refused, or a pool that is whole, and that gives a dump of
//! which a pool is made again.

use super::object::world;
use crate::class;
use crate::patch::store;
use everbyte_object::{Error, PoolOptions, UntypedPool, load};
use everbyte_store::Store;

const LEN: u64 = 2 << 20;

/// Dumps: of every kind of type, and of little, so that a change of one byte is likely to matter.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let small = |description: &[&str], lines: &[&str]| {
        let description: Vec<String> = description.iter().map(|line| format!("{line:?}")).collect();
        let head = format!(
            r#"{{"everbyte":"object dump","version":1,"format":3,"name":"a","description":[{}]}}"#,
            description.join(",")
        );
        [&[&*head], lines].concat().join("\n").into_bytes()
    };
    let link = [
        "root A",
        "A 16 8 { a: Option<Pbox<A>> @0; b: u8 @8 }",
        "Option<Pbox<A>> 8 8 u64 { None = 0; Some = else; Some.0: Pbox<A> @0 }",
    ];
    vec![
        world(|pool| dump(&pool)),
        small(
            &link,
            &[r#"{"block":1,"owned":"Pbox<A>","value":{"a":null,"b":2}}"#, r#"{"root":{"a":{"$block":1},"b":3}}"#],
        ),
        small(
            &["root A", "A 16 8 { a: Prc<u8> @0; b: PrcWeak<u8> @8 }"],
            &[r#"{"block":1,"shared":"u8","value":5}"#, r#"{"root":{"a":{"$block":1},"b":{"$block":1}}}"#],
        ),
        small(&["root A", "A 4 2 u8 { B = 0; C = 7; C.0: i16 @2 }"], &[r#"{"root":{"C":-5}}"#]),
        small(
            &[
                "root PHashMap<PString, (bool, f32)>",
                "PHashMap<PString, (bool, f32)> 48 8",
                "PHashMap<PString, (bool, f32)>::Entry 32 8 { key: PString @0; value: (bool, f32) @24 }",
                "PString 24 8",
                "(bool, f32) 8 4 { 0: bool @4; 1: f32 @0 }",
            ],
            &[r#"{"root":{"a":[true,1.5],"$$b":[false,"0x7fc00000"]}}"#],
        ),
    ]
}

pub(crate) fn run(input: &[u8]) -> String {
    let store = store(LEN);
    if let Err(said) = make(&store, "one", input) {
        assert!(store.object("one").is_err(), "a pool of a dump that was refused");
        return said;
    }
    let text = {
        let pool = UntypedPool::open(&store, "one").expect("it was made");
        let report = pool.examine(&|_| ());
        assert!(report.is_clean(), "{report:?}");
        dump(&pool)
    };
    let store = self::store(LEN);
    make(&store, "two", &text).expect("a dump");
    "loaded".into()
}

fn make(store: &Store, name: &str, text: &[u8]) -> Result<(), String> {
    let options = PoolOptions { span: Some((1 << 20).into()), lanes: Some(2) };
    match load(store, name, &options, &mut &*text, &|_| ()) {
        Ok(_) => Ok(()),
        Err(Error::Dump { detail, .. }) => Err(kind(&detail)),
        Err(error) => Err(class(&error.to_string())),
    }
}

/// The first words of an error, up to those that an input brings.
fn kind(detail: &str) -> String {
    match detail.split_once(" is not a value of type") {
        Some(_) => "not a value of its type".into(),
        None => class(detail.split(['`', ':', '"']).next().unwrap_or_default()).split_inclusive(' ').take(4).collect(),
    }
}

fn dump(pool: &UntypedPool) -> Vec<u8> {
    let mut text = Vec::new();
    pool.dump(&mut text, &|_| ()).expect("a pool that is whole");
    text
}
