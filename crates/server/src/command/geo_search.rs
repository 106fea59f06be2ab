//! GEOSEARCH, GEOSEARCHSTORE, GEORADIUS, GEORADIUSBYMEMBER: the members within an area.
//!
//! The set is walked square by square (`geohash.rs`); those in the area are in memory before they
//! are sorted, written or stored.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::geo::{place, point, reply_distance, reply_point, unit};
use super::sorted_sets::looked_up;
use super::{Call, Fail, Outcome, is_word};
use crate::geohash::{Point, Shape};
use crate::keyspace::{Collection, ScoreSpan, ValueType};
use crate::resp::double::parse_double;
use crate::resp::number::parse_integer;
use std::ops::Bound;

/// Bytes of memory that a member costs beside its own.
const EACH: usize = 64;

/// The forms of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: the centre is given.
    Around { stores: bool },
    /// GEORADIUSBYMEMBER.
    AroundMember { stores: bool },
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
}

impl Form {
    fn searches(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }
}

/// The words of a command.
#[derive(Default)]
struct Words<'a> {
    centre: Option<Point>,
    /// Whether the centre is a member: of a set that is absent there is none.
    member: bool,
    shape: Option<Shape>,
    /// Metres of the unit.
    metres: f64,
    descending: Option<bool>,
    count: u64,
    any: bool,
    distances: bool,
    hashes: bool,
    places: bool,
    target: Option<&'a [u8]>,
    /// Whether distances are stored as scores.
    stores_distances: bool,
}

/// A member within the area.
struct Found {
    member: Vec<u8>,
    place: Point,
    /// In the unit that was asked for.
    distance: f64,
    score: f64,
}

fn length(arg: &[u8], text: &'static str) -> Result<f64, Fail> {
    parse_double(arg).ok_or(Fail::text(text))
}

/// A circle and its unit.
fn circle(radius: &[u8], of: &[u8]) -> Result<(Shape, f64), Fail> {
    let radius = length(radius, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(Fail::text("ERR radius cannot be negative"));
    }
    let metres = unit(of)?;
    Ok((Shape::Circle(radius * metres), metres))
}

/// A box and its unit.
fn rectangle(width: &[u8], height: &[u8], of: &[u8]) -> Result<(Shape, f64), Fail> {
    let width = length(width, "ERR need numeric width")?;
    let height = length(height, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(Fail::text("ERR height or width cannot be negative"));
    }
    let metres = unit(of)?;
    Ok((Shape::Box(width * metres, height * metres), metres))
}

/// The place of a member of a set that is there.
fn centre_at(call: &mut Call<'_, '_>, set: Option<&Collection>, member: &[u8]) -> Result<Option<Point>, Fail> {
    let Some(set) = set else { return Ok(None) };
    let found = place(call, set, member)?;
    found.map(Some).ok_or(Fail::text("ERR could not decode requested zset member"))
}

impl<'a> Words<'a> {
    fn of(call: &mut Call<'a, '_>, form: Form, set: Option<&Collection>) -> Result<Words<'a>, Fail> {
        let mut words = Words::default();
        let args = call.args;
        let first = match form {
            Form::Around { .. } => {
                words.centre = Some(point(args.get(2), args.get(3))?);
                6
            }
            Form::AroundMember { .. } => {
                words.centre = centre_at(call, set, args.get(2))?;
                5
            }
            Form::Search => 2,
            Form::SearchStore => {
                words.target = Some(args.get(1));
                3
            }
        };
        // Of an absent set the radius is not looked at.
        if !form.searches() && (set.is_some() || matches!(form, Form::Around { .. })) {
            let (shape, metres) = circle(args.get(first - 2), args.get(first - 1))?;
            (words.shape, words.metres) = (Some(shape), metres);
        }
        let stores = matches!(form, Form::Around { stores: true } | Form::AroundMember { stores: true });
        let (mut round, mut boxed, mut located) = (false, false, false);
        let mut at = first;
        while at < args.len() {
            let (option, left) = (args.get(at), args.len() - 1 - at);
            let here = at;
            let next = |by: usize| args.get(here + by);
            at += 1;
            match option {
                _ if is_word(option, "withdist") => words.distances = true,
                _ if is_word(option, "withhash") => words.hashes = true,
                _ if is_word(option, "withcoord") => words.places = true,
                _ if is_word(option, "any") => words.any = true,
                _ if is_word(option, "asc") => words.descending = Some(false),
                _ if is_word(option, "desc") => words.descending = Some(true),
                _ if is_word(option, "count") && left >= 1 => {
                    let count = parse_integer(next(1)).ok_or(NOT_INTEGER)?;
                    words.count = u64::try_from(count).ok().filter(|count| *count > 0).ok_or(COUNT)?;
                    at += 1;
                }
                _ if stores && is_word(option, "store") && left >= 1 => {
                    (words.target, words.stores_distances) = (Some(next(1)), false);
                    at += 1;
                }
                _ if stores && is_word(option, "storedist") && left >= 1 => {
                    (words.target, words.stores_distances) = (Some(next(1)), true);
                    at += 1;
                }
                _ if form.searches() && is_word(option, "frommember") && left >= 1 && !located => {
                    if set.is_some() {
                        words.centre = centre_at(call, set, next(1))?;
                    }
                    words.member = true;
                    at += 1;
                }
                _ if form.searches() && is_word(option, "fromlonlat") && left >= 2 && !words.member => {
                    words.centre = Some(point(next(1), next(2))?);
                    located = true;
                    at += 2;
                }
                _ if form.searches() && is_word(option, "byradius") && left >= 2 && !boxed => {
                    let (shape, metres) = circle(next(1), next(2))?;
                    (words.shape, words.metres, round) = (Some(shape), metres, true);
                    at += 2;
                }
                _ if form.searches() && is_word(option, "bybox") && left >= 3 && !round => {
                    let (shape, metres) = rectangle(next(1), next(2), next(3))?;
                    (words.shape, words.metres, boxed) = (Some(shape), metres, true);
                    at += 3;
                }
                _ if form == Form::SearchStore && is_word(option, "storedist") => words.stores_distances = true,
                _ => return Err(SYNTAX),
            }
        }
        words.check(call, form, located)?;
        Ok(words)
    }

    fn check(&self, call: &Call<'_, '_>, form: Form, located: bool) -> Outcome {
        if self.target.is_some() && (self.distances || self.hashes || self.places) {
            let what = if form == Form::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            let text = format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
            return Err(Fail::made(text));
        }
        let missing = |what: &[u8]| {
            Fail::made([b"ERR exactly one of ", what, b" can be specified for ", call.args.get(0)].concat())
        };
        if form.searches() && !self.member && !located {
            return Err(missing(b"FROMMEMBER or FROMLONLAT"));
        }
        if form.searches() && self.shape.is_none() {
            return Err(missing(b"BYRADIUS and BYBOX"));
        }
        if self.any && self.count == 0 {
            return Err(Fail::text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }
}

const COUNT: Fail = Fail::text("ERR COUNT must be > 0");

/// The members within the area, in the order of their squares; with `any`, not more than asked for.
fn within(call: &mut Call<'_, '_>, set: &Collection, words: &Words<'_>) -> Result<Vec<Found>, Fail> {
    let (Some(shape), Some(centre)) = (words.shape, words.centre) else { return Ok(Vec::new()) };
    let limit = if words.any { usize::try_from(words.count).unwrap_or(usize::MAX) } else { usize::MAX };
    let (mut found, mut size) = (Vec::new(), 0);
    let room = call.shared.options.output_size_max.saturating_sub(call.out.pending());
    for square in shape.squares(centre) {
        if found.len() >= limit || size > room {
            break;
        }
        let (from, to) = square.scores();
        let span = ScoreSpan::scores(Bound::Included(from), Bound::Excluded(to));
        call.keys.walk_scores(set, &span, false, 0, &mut |score, member| {
            let place = Point::of_score(score);
            if let Some(distance) = shape.holds(centre, place) {
                size += member.len() + EACH;
                found.push(Found { member: member.to_vec(), place, distance: distance / words.metres, score });
            }
            found.len() < limit && size <= room
        })?;
    }
    if size > room { Err(Fail::OutputLimit) } else { Ok(found) }
}

fn search(call: &mut Call<'_, '_>, form: Form) -> Outcome {
    let key = call.args.get(if form == Form::SearchStore { 2 } else { 1 });
    let set = looked_up(call, key)?;
    let words = Words::of(call, form, set.as_ref())?;
    let mut found = match &set {
        Some(set) => within(call, set, &words)?,
        None => Vec::new(),
    };
    let count = usize::try_from(words.count).ok().filter(|count| *count > 0).unwrap_or(usize::MAX);
    // The nearest ones are meant where only some are asked for.
    let nearest = words.count > 0 && !words.any;
    if let Some(descending) = words.descending.or(nearest.then_some(false)) {
        found.sort_by(|one, other| {
            let order = one.distance.total_cmp(&other.distance);
            if descending { order.reverse() } else { order }
        });
    }
    found.truncate(count);
    match words.target {
        Some(target) => store(call, target, &words, &found),
        None => reply(call, &words, &found),
    }
}

fn reply(call: &mut Call<'_, '_>, words: &Words<'_>, found: &[Found]) -> Outcome {
    let parts = [words.distances, words.hashes, words.places].into_iter().filter(|part| *part).count();
    call.out.array(found.len());
    for one in found {
        if parts > 0 {
            call.out.array(1 + parts);
        }
        call.out.bulk(&one.member);
        if words.distances {
            reply_distance(call.out, one.distance);
        }
        if words.hashes {
            call.out.integer(one.score as i64);
        }
        if words.places {
            reply_point(call.out, one.place);
        }
    }
    call.room()
}

fn store(call: &mut Call<'_, '_>, target: &[u8], words: &Words<'_>, found: &[Found]) -> Outcome {
    call.keys.check_key(target)?;
    let mut made = None;
    if !found.is_empty() {
        let mut set = call.keys.collection_without_key(ValueType::SortedSet)?;
        for one in found {
            let score = if words.stores_distances { one.distance } else { one.score };
            // Around a pole a square may have been looked at twice.
            let old = call.keys.score(&set, &one.member)?;
            call.keys.put_score(&mut set, &one.member, old, score)?;
        }
        made = Some(set);
    }
    call.keys.store_in_place(target, made.as_ref())?;
    call.out.integer(found.len() as i64);
    Ok(())
}

/// `GEOSEARCH key FROMMEMBER m | FROMLONLAT x y BYRADIUS r unit | BYBOX w h unit [ASC | DESC]
/// [COUNT n [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]`
pub(super) fn geosearch(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::Search)
}

/// `GEOSEARCHSTORE destination key ... [STOREDIST]`
pub(super) fn geosearchstore(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::SearchStore)
}

/// `GEORADIUS key longitude latitude radius unit [options] [STORE key | STOREDIST key]`
pub(super) fn georadius(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::Around { stores: true })
}

/// `GEORADIUS_RO key longitude latitude radius unit [options]`
pub(super) fn georadius_ro(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::Around { stores: false })
}

/// `GEORADIUSBYMEMBER key member radius unit [options] [STORE key | STOREDIST key]`
pub(super) fn georadiusbymember(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::AroundMember { stores: true })
}

/// `GEORADIUSBYMEMBER_RO key member radius unit [options]`
pub(super) fn georadiusbymember_ro(call: &mut Call<'_, '_>) -> Outcome {
    search(call, Form::AroundMember { stores: false })
}
