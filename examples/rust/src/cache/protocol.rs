//! memcached's text protocol: get, gets, set, delete, touch, stats, version, quit. Others are
//! answered with `ERROR`.

use super::{Cache, VALUE_MAX, Value, now};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Mutex;

/// The longest line of a command.
const LINE_MAX: u64 = 8 << 10;
const KEY_MAX: usize = 250;
/// Expiries up to so many seconds count from now.
const RELATIVE_MAX: i64 = 30 * 24 * 60 * 60;

/// Answers one client until it leaves.
///
/// # Errors
/// Errors of the connection.
pub fn serve(input: impl Read, mut output: impl Write, cache: &Mutex<Cache>) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut answer = Vec::new();
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.pop() != Some(b'\n') {
            say(&mut answer, "CLIENT_ERROR line too long")?;
            return output.write_all(&answer);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
        if words == [b"quit"] {
            return output.write_all(&answer);
        }
        let silent = words.last() == Some(&&b"noreply"[..]);
        let before = answer.len();
        command(&words[..words.len() - usize::from(silent)], &mut input, &mut answer, cache)?;
        if silent {
            answer.truncate(before);
        }
        if input.buffer().is_empty() {
            output.write_all(&answer)?;
            output.flush()?;
            answer.clear();
        }
    }
}

fn command(words: &[&[u8]], input: &mut impl BufRead, answer: &mut Vec<u8>, cache: &Mutex<Cache>) -> io::Result<()> {
    let lock = || cache.lock().unwrap_or_else(|broken| broken.into_inner());
    let said = match words {
        [b"set", key, flags, expires, len] => {
            let Some(len) = number::<usize>(len) else { return say(answer, "CLIENT_ERROR bad data chunk") };
            // Read, or at least passed over, whatever the rest of the line says.
            let data = data(input, len)?;
            let (Some(flags), Some(expires), true) = (number(flags), number(expires), is_key(key)) else {
                return say(answer, "CLIENT_ERROR bad command line format");
            };
            match data {
                Data::Long => "SERVER_ERROR object too large for cache",
                Data::Ragged => "CLIENT_ERROR bad data chunk",
                Data::Whole(data) => {
                    let value = Value { flags, expires: moment(expires), data };
                    told(lock().set(key, &value), "STORED", "SERVER_ERROR out of memory storing object")
                }
            }
        }
        [b"get" | b"gets", keys @ ..] if !keys.is_empty() && keys.iter().all(|key| is_key(key)) => {
            for key in keys {
                match lock().get(key) {
                    Ok(Some(value)) => show(key, &value, words[0] == b"gets", answer),
                    Ok(None) => {}
                    Err(_) => return say(answer, "SERVER_ERROR the store is damaged"),
                }
            }
            "END"
        }
        [b"delete", key] if is_key(key) => told(lock().delete(key), "DELETED", "NOT_FOUND"),
        [b"touch", key, expires] if is_key(key) => match number(expires) {
            Some(expires) => told(lock().touch(key, moment(expires)), "TOUCHED", "NOT_FOUND"),
            None => "CLIENT_ERROR invalid exptime argument",
        },
        [b"stats"] => {
            stats(&lock(), answer);
            "END"
        }
        [b"version"] => concat!("VERSION everbyte ", env!("CARGO_PKG_VERSION")),
        _ => "ERROR",
    };
    say(answer, said)
}

/// The data line after a `set`.
enum Data {
    Whole(Vec<u8>),
    /// Longer than values may be; passed over.
    Long,
    /// No line ends where it should; what follows, up to the next end of a line, is passed over.
    Ragged,
}

fn data(input: &mut impl BufRead, len: usize) -> io::Result<Data> {
    if len > VALUE_MAX {
        io::copy(&mut input.by_ref().take(len as u64 + 2), &mut io::sink())?;
        return Ok(Data::Long);
    }
    let mut data = vec![0; len];
    input.read_exact(&mut data)?;
    let mut end = Vec::new();
    input.by_ref().take(LINE_MAX).read_until(b'\n', &mut end)?;
    Ok(if end == b"\r\n" || end == b"\n" { Data::Whole(data) } else { Data::Ragged })
}

fn say(answer: &mut Vec<u8>, said: &str) -> io::Result<()> {
    answer.extend_from_slice(said.as_bytes());
    answer.extend_from_slice(b"\r\n");
    Ok(())
}

fn told(done: Result<bool, everbyte::hkv::Error>, yes: &'static str, no: &'static str) -> &'static str {
    match done {
        Ok(true) => yes,
        Ok(false) => no,
        Err(_) => "SERVER_ERROR the store is damaged",
    }
}

fn show(key: &[u8], value: &Value, with_cas: bool, answer: &mut Vec<u8>) {
    answer.extend_from_slice(b"VALUE ");
    answer.extend_from_slice(key);
    let cas = if with_cas { " 0" } else { "" };
    answer.extend_from_slice(format!(" {} {}{cas}\r\n", value.flags, value.data.len()).as_bytes());
    answer.extend_from_slice(&value.data);
    answer.extend_from_slice(b"\r\n");
}

fn stats(cache: &Cache, answer: &mut Vec<u8>) {
    let ((items, bytes), counts) = (cache.size(), cache.counts);
    let stats = [
        ("curr_items", items as u64),
        ("bytes", bytes),
        ("limit_maxbytes", cache.limit()),
        ("get_hits", counts.hits),
        ("get_misses", counts.misses),
        ("cmd_set", counts.sets),
        ("evictions", counts.evictions),
    ];
    stats.iter().for_each(|(name, value)| answer.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes()));
}

fn is_key(key: &[u8]) -> bool {
    key.len() <= KEY_MAX && key.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

fn number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// When a value expires of which a client says this.
fn moment(expires: i64) -> u64 {
    match expires {
        0 => 0,
        ..0 => 1, // long ago
        1..=RELATIVE_MAX => now() + expires as u64,
        _ => expires as u64,
    }
}
