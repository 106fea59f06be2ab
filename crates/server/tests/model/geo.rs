//! Random programs about places on the earth.

use crate::programs::{Order, Row, agree, agree_over, pick};
use everbyte_workload::Random;

fn rows() -> Vec<Row> {
    let shapes: &[(&str, &[&str])] = &[
        ("GEOADD", &["kxym", "kxymxym", "kxymxymxym", "kxymxymxym", "koxym", "kooxym"]),
        ("GEODIST", &["kmm", "kmmu"]),
        ("GEOHASH", &["km", "kmmm", "k"]),
        ("GEOPOS", &["km", "kmmm", "k"]),
        (
            "GEOSEARCH",
            &[
                "kLxyRru",
                "kLxyRruD",
                "kLxyBrruD",
                "kFmRruD",
                "kFmBrruCn",
                "kLxyRruCnAW",
                "kLxyRruDwwW",
                "kFmRrudw",
                "kLxyRruCnD",
                "kLxyFmRru",
                "kLxyRruBrru",
                "kLxyDW",
                "kRruDW",
                "kFmRruAW",
            ],
        ),
        ("GEOSEARCHSTORE", &["tkLxyRru", "tkFmBrruCn", "tkLxyRruS", "tkLxyRruw"]),
        ("GEORADIUS", &["kxyru", "kxyruD", "kxyruwCn", "kxyruTt", "kxyruSt", "kxyruwTt"]),
        ("GEORADIUS_RO", &["kxyruD", "kxyruTt"]),
        ("GEORADIUSBYMEMBER", &["kmruD", "kmruwCn", "kmruTt", "kmruDSt"]),
        ("GEORADIUSBYMEMBER_RO", &["kmruD", "kmruCnAD"]),
        ("ZRANGE", &["t01z", "k01z"]),
        ("ZADD", &["knm"]),
        ("ZREM", &["km"]),
        ("SET", &["ov"]),
        ("DEL", &["k"]),
    ];
    shapes.iter().flat_map(|(name, shapes)| shapes.iter().map(|shape| (*name, *shape, Order::Same))).collect()
}

fn draw(letter: u8, random: &mut Random) -> Vec<u8> {
    let degrees = |random: &mut Random, most: f64| {
        let part = random.index(1 << 30) as f64 / f64::from(1 << 29) - 1.0;
        format!("{:.9}", part * most).into_bytes()
    };
    match letter {
        b'k' => pick(random, &[b"a", b"a", b"a", b"a", b"b", b"other", b"nosuch"]),
        b't' => pick(random, &[b"t", b"t", b"t", b"b", b"other"]),
        b'o' if random.index(4) > 0 => pick(random, &[b"NX", b"XX", b"CH"]),
        b'o' => b"other".to_vec(),
        b'x' if random.index(30) == 0 => pick(random, &[b"180", b"-180", b"181", b"x"]),
        b'y' if random.index(30) == 0 => pick(random, &[b"85.05112878", b"-85.05112878", b"86", b""]),
        // Most places are near each other.
        b'x' if random.index(3) > 0 => degrees(random, 3.0),
        b'y' if random.index(3) > 0 => degrees(random, 2.0),
        b'x' => degrees(random, 180.0),
        b'y' => degrees(random, 85.0),
        b'm' => format!("m{}", random.index(40)).into_bytes(),
        b'r' => {
            pick(random, &[b"0", b"1", b"50", b"200.5", b"1000", b"5000", b"12000", b"30000000", b"-1", b"x", b"1e12"])
        }
        b'u' => pick(random, &[b"km", b"km", b"km", b"m", b"mi", b"FT", b"x"]),
        b'L' => b"FROMLONLAT".to_vec(),
        b'F' => b"FROMMEMBER".to_vec(),
        b'R' => b"BYRADIUS".to_vec(),
        b'B' => b"BYBOX".to_vec(),
        b'D' => pick(random, &[b"ASC", b"desc"]),
        b'd' => pick(random, &[b"ASC", b"DESC"]),
        b'C' => b"COUNT".to_vec(),
        b'A' => b"ANY".to_vec(),
        b'n' => pick(random, &[b"1", b"2", b"5", b"100", b"0", b"-1", b"x"]),
        b'w' => pick(random, &[b"WITHDIST", b"WITHHASH", b"WITHCOORD"]),
        b'W' => pick(random, &[b"WITHDIST", b"withcoord"]),
        b'S' => b"STOREDIST".to_vec(),
        b'T' => b"STORE".to_vec(),
        b'z' => b"WITHSCORES".to_vec(),
        b'0' => b"0".to_vec(),
        b'1' => b"-1".to_vec(),
        _ => pick(random, &[b"1", b"v"]),
    }
}

#[test]
fn random_programs_of_places_are_answered_byte_for_byte() {
    agree("random_programs_of_places", 80, &rows(), &mut draw);
    agree_over("3", "random_programs_of_places", 20, &rows(), &mut draw);
}
