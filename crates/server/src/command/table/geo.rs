//! Rows of the table: places on the earth, which are members of sorted sets.

use super::*;
use crate::command::{geo, geo_search};

const KIND: Flags = Flags::GEO;
const READ: Flags = READONLY.union(KIND);
const CHANGE: Flags = WRITE.union(DENYOOM).union(KIND);
const ONE_READ: &[KeyUse] = &[uses(1, 0, 1, RO_ACCESS)];
const TARGET: &[&str] = &["OW", "update"];

const fn stored(first: i32, word: &'static str) -> KeyUse {
    KeyUse { first, find: Find::After(word), flags: TARGET, notes: None }
}

const LOG_MEMBERS: &str = "O(K log N) where K is the number of members given and N the number of all keys and members";
const SEARCH: &str = "O(log N + K) where N is the number of all keys and members and K the number of members in up to nine squares around the area";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("geoadd", -5, CHANGE, ONE, &[uses(1, 0, 1, RW_SET)], &[], "geo", "3.2.0", LOG_MEMBERS, "Gives members of a sorted set their places; options NX, XX, CH", geo::geoadd),
    keyed!("geodist", -4, READ, ONE, ONE_READ, &[], "geo", "3.2.0", LOG_MEMBERS, "The distance between two members", geo::geodist),
    keyed!("geohash", -2, READ, ONE, ONE_READ, &[], "geo", "3.2.0", LOG_MEMBERS, "The places of members as geohashes", geo::geohash_command),
    keyed!("geopos", -2, READ, ONE, ONE_READ, &[], "geo", "3.2.0", LOG_MEMBERS, "The places of members as longitude and latitude", geo::geopos),
    keyed!("geosearch", -7, READ, ONE, ONE_READ, &[], "geo", "6.2.0", SEARCH, "The members within a circle or a box; options ASC, DESC, COUNT, WITHCOORD, WITHDIST, WITHHASH", geo_search::geosearch),
    keyed!("geosearchstore", -8, CHANGE, TWO, &[uses(1, 0, 1, TARGET), uses(2, 0, 1, RO_ACCESS)], &[], "geo", "6.2.0", SEARCH, "Stores the members within a circle or a box; options ASC, DESC, COUNT, STOREDIST", geo_search::geosearchstore),
    keyed!("georadius", -6, CHANGE.union(MOVABLE), ONE, &[uses(1, 0, 1, RO_ACCESS), stored(6, "STORE"), stored(6, "STOREDIST")], &[], "geo", "3.2.0", SEARCH, "The members within a circle; or stores them", geo_search::georadius),
    keyed!("georadius_ro", -6, READ, ONE, ONE_READ, &[], "geo", "3.2.10", SEARCH, "The members within a circle", geo_search::georadius_ro),
    keyed!("georadiusbymember", -5, CHANGE.union(MOVABLE), ONE, &[uses(1, 0, 1, RO_ACCESS), stored(5, "STORE"), stored(5, "STOREDIST")], &[], "geo", "3.2.0", SEARCH, "The members within a circle around one; or stores them", geo_search::georadiusbymember),
    keyed!("georadiusbymember_ro", -5, READ, ONE, ONE_READ, &[], "geo", "3.2.10", SEARCH, "The members within a circle around one", geo_search::georadiusbymember_ro),
];
