//! Deadlines of keys: EXPIRE, TTL, PERSIST and their kin.

use super::fail::NOT_INTEGER;
use super::{Call, Fail, Outcome, is_word, shown};
use crate::resp::number::parse_integer;

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// From now on.
    Seconds,
    /// From now on.
    Millis,
    /// Since 1970.
    SecondsAt,
    /// Since 1970.
    MillisAt,
}

impl Unit {
    /// The unit of an option of SET.
    pub(super) fn named(option: &[u8]) -> Option<Unit> {
        [("ex", Unit::Seconds), ("px", Unit::Millis), ("exat", Unit::SecondsAt), ("pxat", Unit::MillisAt)]
            .into_iter()
            .find_map(|(word, unit)| is_word(option, word).then_some(unit))
    }

    /// Milliseconds since 1970 of a time in this unit, below 0 too.
    fn at(self, time: i64, now: u64, command: &str) -> Result<i64, Fail> {
        let seconds = matches!(self, Unit::Seconds | Unit::SecondsAt);
        let millis = if seconds { time.checked_mul(1000) } else { Some(time) };
        let base = if matches!(self, Unit::Seconds | Unit::Millis) { now as i64 } else { 0 };
        millis.and_then(|millis| millis.checked_add(base)).ok_or_else(|| invalid(command))
    }

    /// The deadline that an option gives, in milliseconds since 1970: above 0, past or not.
    pub(super) fn deadline(self, time: &[u8], now: u64, command: &str) -> Result<u64, Fail> {
        match parse_integer(time).ok_or(NOT_INTEGER)? {
            ..=0 => Err(invalid(command)),
            time => self.at(time, now, command).map(|at| at as u64),
        }
    }
}

fn invalid(command: &str) -> Fail {
    Fail::made(format!("ERR invalid expire time in '{command}' command"))
}

/// Gives a key that is there a deadline; one that has passed already deletes it.
pub(super) fn set(call: &mut Call<'_, '_>, key: &[u8], deadline: u64) -> Outcome {
    if call.keys.has_passed(deadline) {
        call.keys.delete(key)?;
    } else {
        call.keys.set_deadline(key, deadline)?;
    }
    Ok(())
}

/// When EXPIRE may change the deadline there is.
#[derive(Default)]
struct Conditions {
    absent: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn of(call: &Call<'_, '_>) -> Result<Conditions, Fail> {
        let mut given = Conditions::default();
        for option in call.args.from(3) {
            match option {
                _ if is_word(option, "nx") => given.absent = true,
                _ if is_word(option, "xx") => given.present = true,
                _ if is_word(option, "gt") => given.later = true,
                _ if is_word(option, "lt") => given.earlier = true,
                _ => {
                    // As C prints it, without line ends behind it.
                    let text = [b"ERR Unsupported option ", shown(option, usize::MAX)].concat();
                    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
                    return Err(Fail::made(&text[..end]));
                }
            }
        }
        if given.absent && (given.present || given.later || given.earlier) {
            return Err(Fail::text("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if given.later && given.earlier {
            return Err(Fail::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(given)
    }

    /// Whether a deadline of `old` (0: none) may become `new`.
    fn allow(&self, old: u64, new: i64) -> bool {
        let before = (old != 0).then_some(old as i64);
        !(self.absent && before.is_some()
            || self.present && before.is_none()
            || self.later && before.is_none_or(|old| new <= old)
            || self.earlier && before.is_some_and(|old| new >= old))
    }
}

fn expire_by(call: &mut Call<'_, '_>, unit: Unit, command: &str) -> Outcome {
    let conditions = Conditions::of(call)?;
    let time = parse_integer(call.args.get(2)).ok_or(NOT_INTEGER)?;
    let at = unit.at(time, call.keys.now(), command)?;
    let key = call.args.get(1);
    let allowed = call.keys.deadline(key)?.is_some_and(|old| conditions.allow(old, at));
    if allowed {
        set(call, key, at.max(0) as u64)?;
    }
    call.out.integer(i64::from(allowed));
    Ok(())
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub(super) fn expire(call: &mut Call<'_, '_>) -> Outcome {
    expire_by(call, Unit::Seconds, "expire")
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub(super) fn pexpire(call: &mut Call<'_, '_>) -> Outcome {
    expire_by(call, Unit::Millis, "pexpire")
}

/// `EXPIREAT key seconds-since-1970 [NX | XX | GT | LT]`
pub(super) fn expireat(call: &mut Call<'_, '_>) -> Outcome {
    expire_by(call, Unit::SecondsAt, "expireat")
}

/// `PEXPIREAT key milliseconds-since-1970 [NX | XX | GT | LT]`
pub(super) fn pexpireat(call: &mut Call<'_, '_>) -> Outcome {
    expire_by(call, Unit::MillisAt, "pexpireat")
}

/// -2 without the key, -1 without a deadline, else what `of` makes of it.
fn told(call: &mut Call<'_, '_>, of: impl Fn(i64, i64) -> i64) -> Outcome {
    let now = call.keys.now() as i64;
    let found = call.keys.deadline(call.args.get(1))?;
    call.shared.metrics.look_up(found.is_some());
    call.out.integer(match found {
        None => -2,
        Some(0) => -1,
        Some(deadline) => of(deadline as i64, now),
    });
    Ok(())
}

/// The nearest number of seconds.
fn seconds(millis: i64) -> i64 {
    ((i128::from(millis) + 500) / 1000) as i64
}

/// `TTL key`
pub(super) fn ttl(call: &mut Call<'_, '_>) -> Outcome {
    told(call, |deadline, now| seconds(deadline - now))
}

/// `PTTL key`
pub(super) fn pttl(call: &mut Call<'_, '_>) -> Outcome {
    told(call, |deadline, now| deadline - now)
}

/// `EXPIRETIME key`
pub(super) fn expiretime(call: &mut Call<'_, '_>) -> Outcome {
    told(call, |deadline, _| seconds(deadline))
}

/// `PEXPIRETIME key`
pub(super) fn pexpiretime(call: &mut Call<'_, '_>) -> Outcome {
    told(call, |deadline, _| deadline)
}

/// `PERSIST key`
pub(super) fn persist(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(1);
    let had = call.keys.deadline(key)?.is_some_and(|deadline| deadline != 0);
    if had {
        call.keys.set_deadline(key, 0)?;
    }
    call.out.integer(i64::from(had));
    Ok(())
}
