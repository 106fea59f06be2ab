//! Places on the earth: GEOADD, GEODIST, GEOHASH, GEOPOS. A place is a member of a sorted set,
//! whose score has the bits of longitude and latitude (`geohash.rs`).

use super::fail::{NOT_FLOAT, SYNTAX};
use super::sorted_sets::{AddOptions, looked_up, set_scores};
use super::{Call, Fail, Outcome, is_word};
use crate::geohash::{LATITUDE_MAX, LONGITUDE_MAX, Point, geohash};
use crate::keyspace::Collection;
use crate::resp::double::parse_double;
use crate::resp::reply::{Protocol, Replies};

/// The metres of a unit.
pub(super) fn unit(arg: &[u8]) -> Result<f64, Fail> {
    [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)]
        .into_iter()
        .find_map(|(name, metres)| is_word(arg, name).then_some(metres))
        .ok_or(Fail::text("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// A longitude and the latitude behind it.
pub(super) fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, Fail> {
    let degrees = |arg| parse_double(arg).ok_or(NOT_FLOAT);
    let point = Point { longitude: degrees(longitude)?, latitude: degrees(latitude)? };
    if point.longitude.abs() > LONGITUDE_MAX || point.latitude.abs() > LATITUDE_MAX {
        return Err(Fail::made(format!(
            "ERR invalid longitude,latitude pair {:.6},{:.6}",
            point.longitude, point.latitude
        )));
    }
    Ok(point)
}

/// The place of a member; `None` without it.
pub(super) fn place(call: &mut Call<'_, '_>, set: &Collection, member: &[u8]) -> Result<Option<Point>, Fail> {
    Ok(call.keys.score(set, member)?.map(Point::of_score))
}

/// `GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]`
pub(super) fn geoadd(call: &mut Call<'_, '_>) -> Outcome {
    let (mut options, mut first) = (AddOptions::empty(), 2);
    while first < call.args.len() {
        match call.args.get(first) {
            option if is_word(option, "nx") => options |= AddOptions::NX,
            option if is_word(option, "xx") => options |= AddOptions::XX,
            option if is_word(option, "ch") => options |= AddOptions::CH,
            _ => break,
        }
        first += 1;
    }
    if !(call.args.len() - first).is_multiple_of(3) || options.contains(AddOptions::NX.union(AddOptions::XX)) {
        return Err(SYNTAX);
    }
    let args = call.args;
    let places = (first..args.len()).step_by(3);
    let scores = places.map(|at| point(args.get(at), args.get(at + 1)).map(Point::score));
    let scores = scores.collect::<Result<Vec<_>, _>>()?;
    if scores.is_empty() {
        return Err(SYNTAX);
    }
    set_scores(call, options, scores, |place| args.get(first + 2 + 3 * place))
}

/// A distance in a unit, with four digits behind the point.
pub(super) fn reply_distance(out: &mut Replies, distance: f64) {
    out.bulk(format!("{distance:.4}").as_bytes());
}

/// Longitude and latitude, with as many digits as they have, 17 behind the point at most.
pub(super) fn reply_point(out: &mut Replies, point: Point) {
    out.array(2);
    for degrees in [point.longitude, point.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        match out.protocol {
            Protocol::Resp2 => out.bulk(text.as_bytes()),
            Protocol::Resp3 => out.raw(format!(",{text}\r\n").as_bytes()),
        }
    }
}

/// `GEODIST key member1 member2 [M | KM | FT | MI]`
pub(super) fn geodist(call: &mut Call<'_, '_>) -> Outcome {
    let metres = match call.args.len() {
        4 => 1.0,
        5 => unit(call.args.get(4))?,
        _ => return Err(SYNTAX),
    };
    let mut found = [None; 2];
    if let Some(set) = looked_up(call, call.args.get(1))? {
        for (at, found) in found.iter_mut().enumerate() {
            *found = place(call, &set, call.args.get(at + 2))?;
        }
    }
    match found {
        [Some(one), Some(other)] => reply_distance(call.out, one.distance(other) / metres),
        _ => call.out.null(),
    }
    Ok(())
}

/// Writes the place of each member that is given, or its absence.
fn each(call: &mut Call<'_, '_>, found: fn(&mut Replies, Point), absent: fn(&mut Replies)) -> Outcome {
    let set = looked_up(call, call.args.get(1))?;
    call.out.array(call.args.len() - 2);
    for member in call.args.from(2) {
        let point = match &set {
            Some(set) => place(call, set, member)?,
            None => None,
        };
        match point {
            Some(point) => found(call.out, point),
            None => absent(call.out),
        }
    }
    call.room()
}

/// `GEOHASH key [member ...]`
pub(super) fn geohash_command(call: &mut Call<'_, '_>) -> Outcome {
    each(call, |out, point| out.bulk(geohash(point).as_bytes()), Replies::null)
}

/// `GEOPOS key [member ...]`
pub(super) fn geopos(call: &mut Call<'_, '_>) -> Outcome {
    each(call, reply_point, Replies::null_array)
}
