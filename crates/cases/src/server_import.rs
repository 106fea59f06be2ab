//! The case of imports: an RDB file in many batches is there whole or not at all.

#![allow(clippy::result_large_err, reason = "an import ends once")]

use crate::Case;
use crate::server::{MAX, served};
use crate::server_model::Databases;
use crate::server_script::observe;
use everbyte_media::Media;
use everbyte_server::{ImportOptions, ImportSource, export, import};
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};

pub(crate) const CASES: &[Case] = &[Case {
    name: "server-import",
    crate_name: "server",
    about: "RDB files in many batches go into empty tables and into others, one is damaged: each is whole or absent",
    total: 1200,
    program,
}];

/// Keys of all types.
const FIRST: &[&str] = &[
    "SET a plain",
    "SET b ~700b PXAT 2000000000000",
    "RPUSH l one two three",
    "HSET h f v g w",
    "SELECT 9",
    "SADD s m n o",
    "SET c nine",
];
/// More keys, some of them in place of those.
const SECOND: &[&str] = &["SET a other", "RPUSH l four", "SELECT 1", "SADD t u v", "SELECT 9", "HSET s f v"];
/// Both: of the types of the second ones where both have a key.
const BOTH: &[&str] = &[
    "SET a other",
    "SET b ~700b PXAT 2000000000000",
    "RPUSH l four",
    "HSET h f v g w",
    "SELECT 1",
    "SADD t u v",
    "SELECT 9",
    "HSET s f v",
    "SET c nine",
];

/// The RDB file of a store that has served these lines, and what it holds.
pub(crate) fn file(lines: &[&str]) -> (Vec<u8>, Databases) {
    let (image, all) = served(MAX, lines);
    let kv = crate::kv::open(&image.media()).expect("a whole store");
    let mut bytes = Vec::new();
    export(&kv, &mut bytes, &mut |_| {}).expect("whole tables");
    (bytes, all)
}

fn program(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, nothing) = served(MAX, &[]);
    let ((first, one), (second, _), (_, both)) = (file(FIRST), file(SECOND), file(BOTH));
    let damaged = [&second[..second.len() - 1], &[second[second.len() - 1] ^ 1]].concat();
    // Each few elements are a batch.
    let options = ImportOptions { replace: true, batch_size: 150, ..ImportOptions::default() };
    let program = |media: Media, twin: &Twin<'_, Databases>| {
        let kv = crate::kv::open(&media).expect("a whole store");
        let read = |bytes: &[u8]| import(&kv, &ImportSource::Bytes(bytes.into()), &options, &mut |_| true);
        let (one, both) = (one.clone(), both.clone());
        twin.step_here("an import into empty tables", move |all| *all = one.clone(), || read(&first).expect("room"));
        twin.step_here("an import that is taken back", |_| {}, || read(&damaged).expect_err("damaged"));
        twin.step_here("an import beside other keys", move |all| *all = both.clone(), || read(&second).expect("room"));
    };
    explorer
        .recovery(64, 2)
        .floor(8)
        .explore_twin(&image, &nothing, Order::InOrder, program, |media, seen| observe(&media, seen))
}
