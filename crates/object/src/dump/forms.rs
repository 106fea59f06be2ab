//! A [`Form`] as text of JSON and back: addresses, ids, times and decimals as their own crates
//! write them.

use crate::description::forms::{Form, half, word};
use std::fmt::Write;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

impl Form {
    /// The text of the value whose bytes these are; `None`: they are no value.
    pub(super) fn text(self, bytes: &[u8]) -> Option<String> {
        if !self.is_valid(bytes) {
            return None;
        }
        let mut text = String::new();
        match self {
            Form::Uuid => {
                for (index, byte) in bytes.iter().enumerate() {
                    let dash = if [4, 6, 8, 10].contains(&index) { "-" } else { "" };
                    let _ = write!(text, "{dash}{byte:02x}");
                }
            }
            Form::Timestamp => {
                let seconds = word(bytes, 0);
                let (days, time) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
                push_date(&mut text, date_of(days));
                text.push('T');
                push_time(&mut text, [time / 3600, time / 60 % 60, time % 60], word(bytes, 8));
                text.push('Z');
            }
            Form::Date => push_date(&mut text, date(bytes)),
            Form::Time => push_clock(&mut text, bytes),
            Form::DateTime => {
                push_date(&mut text, date(bytes));
                text.push('T');
                push_clock(&mut text, &bytes[4..]);
            }
            Form::SignedDuration => {
                let all = i128::from(word(bytes, 0)) * i128::from(SECOND) + i128::from(word(bytes, 8));
                push_decimal(&mut text, all < 0, all.unsigned_abs(), 9);
            }
            Form::Decimal => {
                let (flags, low, middle, high) = (half(bytes, 0), half(bytes, 4), half(bytes, 8), half(bytes, 12));
                let number = u128::from(low) | u128::from(middle) << 32 | u128::from(high) << 64;
                push_decimal(&mut text, flags >> 31 == 1, number, (flags >> 16 & 0xff) as usize);
            }
            Form::SocketAddr if bytes[26] == 4 => {
                let ip = std::net::Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
                text = SocketAddrV4::new(ip, u16::from_le_bytes([bytes[24], bytes[25]])).to_string();
            }
            // Behind the address, since the text of one leaves its flow information out.
            Form::SocketAddr | Form::SocketAddrV6 => {
                let ip = Ipv6Addr::from_octets(std::array::from_fn(|index| bytes[index]));
                let port = u16::from_le_bytes([bytes[24], bytes[25]]);
                text = SocketAddrV6::new(ip, port, 0, half(bytes, 20)).to_string();
                if half(bytes, 16) != 0 {
                    let _ = write!(text, " flow {}", half(bytes, 16));
                }
            }
            Form::ShortString(_) => text.push_str(std::str::from_utf8(&bytes[1..1 + usize::from(bytes[0])]).ok()?),
        }
        Some(text)
    }

    /// Reads a value into bytes that are zeros; `None`: the text is none.
    pub(super) fn read(self, text: &str, to: &mut [u8]) -> Option<()> {
        match self {
            Form::Uuid => {
                let digits: Vec<&str> = text.split('-').collect();
                if digits.iter().map(|digits| digits.len()).ne([8, 4, 4, 4, 12]) || text.contains('+') {
                    return None;
                }
                to.copy_from_slice(&u128::from_str_radix(&digits.concat(), 16).ok()?.to_be_bytes());
            }
            Form::Timestamp => {
                let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
                let mut bytes = [0; 12];
                Form::DateTime.read(&format!("{date}T{time}"), &mut bytes)?;
                let [hour, minute, second] = [4, 5, 6].map(|index: usize| i64::from(bytes[index]));
                let seconds = days_of(self::date(&bytes)) * DAY + hour * 3600 + minute * 60 + second;
                to[..8].copy_from_slice(&seconds.to_le_bytes());
                to[8..].copy_from_slice(&i64::from(half(&bytes, 8)).to_le_bytes());
            }
            Form::Date => {
                let (is_negative, digits) = sign(text);
                let [year, month, day] = parts(digits, '-')?;
                let year: i16 = year.try_into().ok()?;
                to[..2].copy_from_slice(&(if is_negative { -year } else { year }).to_le_bytes());
                (to[2], to[3]) = (month.try_into().ok()?, day.try_into().ok()?);
            }
            Form::Time => {
                let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
                for (to, part) in to.iter_mut().zip(parts::<3>(clock, ':')?) {
                    *to = part.try_into().ok()?;
                }
                to[4..].copy_from_slice(&(nanoseconds(fraction)? as u32).to_le_bytes());
            }
            Form::DateTime => {
                let (date, time) = text.split_once('T')?;
                Form::Date.read(date, &mut to[..4])?;
                Form::Time.read(time, &mut to[4..])?;
            }
            Form::SignedDuration => {
                let (is_negative, digits) = sign(text);
                let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                let seconds = i128::from(number(seconds)?);
                let sign = if is_negative { -1 } else { 1 };
                to[..8].copy_from_slice(&i64::try_from(sign * seconds).ok()?.to_le_bytes());
                to[8..].copy_from_slice(&((sign as i64) * nanoseconds(fraction)?).to_le_bytes());
            }
            Form::Decimal => {
                let (is_negative, digits) = sign(text);
                let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                let all = format!("{whole}{fraction}");
                let is_number = !whole.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
                let number: u128 = all.parse::<u128>().ok().filter(|number| is_number && number >> 96 == 0)?;
                let flags = u32::from(is_negative) << 31
                    | u32::try_from(fraction.len()).ok().filter(|scale| *scale <= 28)? << 16;
                to[..4].copy_from_slice(&flags.to_le_bytes());
                to[4..].copy_from_slice(&number.to_le_bytes()[..12]);
            }
            Form::SocketAddr | Form::SocketAddrV6 => {
                let (address, flow) = match text.split_once(" flow ") {
                    Some((address, flow)) => (address, flow.parse().ok()?),
                    None => (text, 0),
                };
                let (ip, port, scope, version) = match address.parse().ok()? {
                    SocketAddr::V4(four) => (four.ip().octets().to_vec(), four.port(), 0, 4u16),
                    SocketAddr::V6(six) => (six.ip().octets().to_vec(), six.port(), six.scope_id(), 6),
                };
                to[..ip.len()].copy_from_slice(&ip);
                to[16..20].copy_from_slice(&u32::to_le_bytes(flow));
                to[20..24].copy_from_slice(&scope.to_le_bytes());
                to[24..26].copy_from_slice(&port.to_le_bytes());
                to[26..].copy_from_slice(&version.to_le_bytes());
            }
            Form::ShortString(len) => {
                to[0] = text.len().try_into().ok().filter(|_| text.len() <= len)?;
                to[1..=text.len()].copy_from_slice(text.as_bytes());
            }
        }
        self.is_valid(to).then_some(())
    }
}

/// Year, month and day.
fn date(bytes: &[u8]) -> (i64, i64, i64) {
    (i16::from_le_bytes([bytes[0], bytes[1]]).into(), bytes[2].into(), bytes[3].into())
}

/// Days from 1970 on to a day. Years are counted from March, so that the day of a leap year is the
/// last, in eras of 400 years.
fn days_of((year, month, day): (i64, i64, i64)) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The reverse of [`days_of`].
fn date_of(days: i64) -> (i64, i64, i64) {
    let (era, of_era) = ((days + 719_468).div_euclid(146_097), (days + 719_468).rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = (from_march + 2) % 12 + 1;
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * from_march + 2) / 5 + 1)
}

fn push_date(text: &mut String, (year, month, day): (i64, i64, i64)) {
    let _ = match year {
        0.. => write!(text, "{year:04}-{month:02}-{day:02}"),
        _ => write!(text, "-{:06}-{month:02}-{day:02}", -year),
    };
}

fn push_clock(text: &mut String, bytes: &[u8]) {
    push_time(text, [0, 1, 2].map(|index: usize| bytes[index].into()), half(bytes, 4).into());
}

fn push_time(text: &mut String, [hour, minute, second]: [i64; 3], nanosecond: i64) {
    let _ = write!(text, "{hour:02}:{minute:02}:{second:02}");
    if nanosecond > 0 {
        let fraction = format!("{nanosecond:09}");
        let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
    }
}

/// A number with so many digits behind the point.
fn push_decimal(text: &mut String, is_negative: bool, number: u128, scale: usize) {
    let digits = format!("{number:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let (sign, point) = (if is_negative { "-" } else { "" }, if scale > 0 { "." } else { "" });
    let _ = write!(text, "{sign}{whole}{point}{fraction}");
}

/// Whether a minus is there, and what follows.
fn sign(text: &str) -> (bool, &str) {
    text.strip_prefix('-').map_or((false, text), |rest| (true, rest))
}

fn number(digits: &str) -> Option<u64> {
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn parts<const N: usize>(text: &str, between: char) -> Option<[u64; N]> {
    let all: Vec<u64> = text.split(between).map(number).collect::<Option<_>>()?;
    all.try_into().ok()
}

/// Digits behind the point of a second.
fn nanoseconds(fraction: &str) -> Option<i64> {
    match fraction.len() {
        0 => Some(0),
        1..=9 => Some(number(fraction)? as i64 * 10i64.pow(9 - fraction.len() as u32)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_across_eras() {
        let known = [((1970, 1, 1), 0), ((2000, 2, 29), 11_016), ((1969, 12, 31), -1), ((-9999, 1, 1), -4_371_587)];
        for (date, days) in known {
            assert_eq!((days_of(date), date_of(days)), (days, date));
        }
        assert!((-4_371_587..=2_932_896).step_by(97).all(|days| days_of(date_of(days)) == days));
    }

    #[test]
    fn texts_that_are_no_value_are_refused() {
        let bad = [
            (Form::Uuid, "00000000-0000-0000-0000-00000000000"),
            (Form::Uuid, "00000000-0000-0000-0000-00000000000g"),
            (Form::Uuid, "000000000000-0000-0000-0000-00000000"),
            (Form::Date, "2023-02-29"),
            (Form::Date, "2023-2"),
            (Form::Date, "10000-01-01"),
            (Form::Date, "+2023-01-01"),
            (Form::Time, "24:00:00"),
            (Form::Time, "00:00:60"),
            (Form::Time, "00:00:00.0000000001"),
            (Form::Time, "00:00"),
            (Form::DateTime, "2023-01-01 00:00:00"),
            (Form::Timestamp, "2023-01-01T00:00:00"),
            (Form::Timestamp, "9999-12-31T00:00:00Z"),
            (Form::SignedDuration, "9223372036854775808"),
            (Form::SignedDuration, "--1"),
            (Form::Decimal, "79228162514264337593543950336"),
            (Form::Decimal, "0.00000000000000000000000000001"),
            (Form::Decimal, "1e5"),
            (Form::Decimal, ".5"),
            (Form::Decimal, "+5"),
            (Form::SocketAddr, "localhost:80"),
            (Form::SocketAddr, "1.2.3.4:80 flow 1"),
            (Form::SocketAddrV6, "1.2.3.4:80"),
            (Form::ShortString(3), "four"),
        ];
        for (form, text) in bad {
            let mut bytes = vec![0; form.size()];
            assert_eq!(form.read(text, &mut bytes), None, "{form:?} of `{text}`");
        }
    }

    /// Values at the ends of each form, and back.
    #[test]
    fn texts_of_values_are_read_back() {
        let good = [
            (Form::Uuid, "01234567-89ab-cdef-0123-456789abcdef"),
            (Form::Date, "-009999-01-01"),
            (Form::Date, "0000-02-29"),
            (Form::Time, "23:59:59.999999999"),
            (Form::Time, "00:00:00"),
            (Form::DateTime, "9999-12-31T23:59:59.5"),
            (Form::Timestamp, "-009999-01-02T01:59:59Z"),
            (Form::Timestamp, "9999-12-30T22:00:00.999999999Z"),
            (Form::Timestamp, "1969-12-31T23:59:59.000000001Z"),
            (Form::SignedDuration, "-9223372036854775808.999999999"),
            (Form::SignedDuration, "-0.000000001"),
            (Form::Decimal, "-79228162514264337593543950335"),
            (Form::Decimal, "7.9228162514264337593543950335"),
            (Form::Decimal, "-0.00"),
            (Form::SocketAddr, "1.2.3.4:65535"),
            (Form::SocketAddr, "[::1%7]:80 flow 9"),
            (Form::SocketAddrV6, "[1:2:3:4:5:6:7:8]:0"),
            (Form::ShortString(3), ""),
            (Form::ShortString(3), "\u{20ac}"),
        ];
        for (form, text) in good {
            let mut bytes = vec![0; form.size()];
            form.read(text, &mut bytes).unwrap_or_else(|| panic!("{form:?} of `{text}`"));
            assert_eq!(form.text(&bytes).as_deref(), Some(text), "{form:?}");
        }
    }
}
