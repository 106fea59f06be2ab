//! The few lines of HTTP that a scrape needs: one request of a connection, and its response.
//!
//! A request is `GET` or `HEAD` of `/metrics`, in HTTP/1.0 or 1.1. It is refused at its first line
//! if that line is none, so a client of another protocol is not waited for. A library would bring
//! more than the server offers: bodies, chunks, upgrades, connections that stay.

/// Bytes of a request at most.
pub(super) const REQUEST_MAX: usize = 8 << 10;
/// The path of the figures.
const PATH: &str = "/metrics";

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The figures follow.
    Ok,
    /// No HTTP.
    BadRequest,
    /// Other machines may not ask.
    Forbidden,
    /// Another path.
    NotFound,
    /// Another method.
    MethodNotAllowed,
    /// The request did not come in time.
    Timeout,
    /// The request is too long.
    TooLarge,
    /// The event loop did not answer in time.
    Unavailable,
    /// Another version of HTTP.
    Version,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::Timeout => "408 Request Timeout",
            Status::TooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
            Status::Version => "505 HTTP Version Not Supported",
        }
    }

    /// The body, for people.
    fn text(self) -> &'static str {
        match self {
            Status::Ok => "",
            Status::BadRequest => "this is no HTTP request; the figures are at GET /metrics\n",
            Status::Forbidden => {
                "no password is set, so figures are told to this machine alone: set a password (option `requirepass`), or \
                 say --open (option `open`) if the network is trusted\n"
            }
            Status::NotFound => "there is nothing here; the figures are at /metrics\n",
            Status::MethodNotAllowed => "the figures are read by GET /metrics\n",
            Status::Timeout => "the request did not come in time\n",
            Status::TooLarge => "the request is longer than 8 KiB\n",
            Status::Unavailable => "the server is busy with one command and could not be asked; try again\n",
            Status::Version => "HTTP/1.0 and HTTP/1.1 are spoken here\n",
        }
    }
}

/// The meaning of the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The beginning of a request.
    Partial,
    /// A request for the figures, or for the head of their response alone.
    Figures {
        /// Whether only the head is wanted.
        head: bool,
    },
    /// Anything else.
    Refused(Status),
}

/// A byte of a token: a method, the name of a header.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Reads the first line of a request: whether only the head is wanted, and whether the request must
/// name its host.
fn first_line(line: &[u8]) -> Result<(bool, bool), Status> {
    let parts: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = parts[..] else { return Err(Status::BadRequest) };
    if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
        return Err(Status::BadRequest);
    }
    if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(Status::BadRequest);
    }
    let hosted = match version {
        b"HTTP/1.0" => false,
        b"HTTP/1.1" => true,
        other if other.starts_with(b"HTTP/") => return Err(Status::Version),
        _ => return Err(Status::BadRequest),
    };
    let target = String::from_utf8_lossy(target);
    // A request that was meant for a proxy names the server, too.
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => &target,
    };
    let path = path.split('?').next().unwrap_or_default();
    match method {
        _ if path != PATH => Err(Status::NotFound),
        b"GET" => Ok((false, hosted)),
        b"HEAD" => Ok((true, hosted)),
        _ => Err(Status::MethodNotAllowed),
    }
}

/// Whether a line is a header, and names the host.
fn header(line: &[u8]) -> Option<bool> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at(colon);
    let is_text = |byte: &u8| *byte >= b' ' && *byte != 0x7f || *byte == b'\t';
    let good = !name.is_empty() && name.iter().all(|byte| is_token(*byte)) && value.iter().all(is_text);
    good.then(|| name.eq_ignore_ascii_case(b"host"))
}

/// Reads the beginning of a request, or all of it.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    // The bytes behind the last end of a line are not whole.
    let mut whole = bytes.iter().filter(|byte| **byte == b'\n').count();
    let partial = || if bytes.len() < REQUEST_MAX { Parsed::Partial } else { Parsed::Refused(Status::TooLarge) };
    let Some(line) = lines.next() else { return partial() };
    if whole == 0 {
        // No method has so many letters, nor other bytes.
        let method = line.iter().take(32).take_while(|byte| is_token(**byte)).count();
        let odd = line.get(method).is_some_and(|byte| *byte != b' ') || method == 32;
        return if odd { Parsed::Refused(Status::BadRequest) } else { partial() };
    }
    let (head, hosted) = match first_line(line) {
        Ok(first) => first,
        Err(status) => return Parsed::Refused(status),
    };
    let mut named = false;
    for line in lines {
        whole -= 1;
        if whole == 0 {
            return partial();
        }
        if line.is_empty() {
            let good = named || !hosted;
            return if good { Parsed::Figures { head } } else { Parsed::Refused(Status::BadRequest) };
        }
        match header(line) {
            None => return Parsed::Refused(Status::BadRequest),
            Some(host) => named |= host,
        }
    }
    partial()
}

/// For fuzzers: reads bytes as a request, whole and cut short. A verdict about the beginning of a
/// request does not change with what follows.
pub(crate) fn check_request(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(REQUEST_MAX - 1)];
    let is_taken = |parsed| matches!(parsed, Parsed::Figures { .. });
    let whole = parse(bytes);
    for cut in [bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        let part = parse(&bytes[..cut]);
        assert!(part == Parsed::Partial || is_taken(part) == is_taken(whole), "{part:?} {whole:?}");
    }
}

/// A whole response.
pub(super) fn response(status: Status, figures: &str, head: bool) -> Vec<u8> {
    let (kind, body) = match status {
        Status::Ok => ("text/plain; version=0.0.4; charset=utf-8", figures),
        other => ("text/plain; charset=utf-8", other.text()),
    };
    let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
    let mut bytes = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        status.line(),
        body.len()
    )
    .into_bytes();
    if !head {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_or_refused_for_their_reason() {
        let (get, head) = (Parsed::Figures { head: false }, Parsed::Figures { head: true });
        let refused = Parsed::Refused;
        for (text, expect) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", get),
            ("GET /metrics HTTP/1.0\r\n\r\n", get),
            ("GET /metrics HTTP/1.0\n\n", get),
            ("GET /metrics?a=b HTTP/1.1\r\naccept: */*\r\nhOST:\r\n\r\n", get),
            ("GET http://here:1/metrics HTTP/1.1\r\nHost: x\r\n\r\n", get),
            ("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", head),
            ("GET /metrics HTTP/1.1\r\n\r\n", refused(Status::BadRequest)),
            ("GET / HTTP/1.1\r\n", refused(Status::NotFound)),
            ("GET http://here HTTP/1.1\r\n", refused(Status::NotFound)),
            ("GET /metrics/ HTTP/1.1\r\n", refused(Status::NotFound)),
            ("POST /metrics HTTP/1.1\r\n", refused(Status::MethodNotAllowed)),
            ("POST /other HTTP/1.1\r\n", refused(Status::NotFound)),
            ("GET /metrics HTTP/2.0\r\n", refused(Status::Version)),
            ("GET /metrics\r\n", refused(Status::BadRequest)),
            ("GET  /metrics HTTP/1.1\r\n", refused(Status::BadRequest)),
            ("GET /met\u{e9}rics HTTP/1.1\r\n", refused(Status::BadRequest)),
            ("GET /metrics HTTP/1.1\r\nHost x\r\n", refused(Status::BadRequest)),
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n folded\r\n", refused(Status::BadRequest)),
            ("GET /metrics HTTP/1.1\r\nHost: x\0\r\n", refused(Status::BadRequest)),
            ("*1\r\n$4\r\nPING\r\n", refused(Status::BadRequest)),
            ("\x16\x03\x01", refused(Status::BadRequest)),
            ("\r\n", refused(Status::BadRequest)),
            ("AUTHENTICATIONBYAMETHODTHATISLONG", refused(Status::BadRequest)),
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n", Parsed::Partial),
            ("GET /metrics HTTP/1.1", Parsed::Partial),
            ("GE", Parsed::Partial),
            ("", Parsed::Partial),
        ] {
            assert_eq!(parse(text.as_bytes()), expect, "{text:?}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nHost: {}", "x".repeat(REQUEST_MAX));
        assert_eq!(parse(long.as_bytes()), refused(Status::TooLarge));
        assert_eq!(parse(format!("GET /{}", "x".repeat(REQUEST_MAX)).as_bytes()), refused(Status::TooLarge));
    }

    /// However a request is cut into pieces, it is the same; and no bytes make the parser panic.
    #[test]
    fn any_bytes_are_read() {
        let whole = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Parsed::Partial, "{cut}");
            for byte in 0..=255 {
                let mut odd = whole.to_vec();
                odd[cut] = byte;
                let _ = parse(&odd);
                let _ = parse(&[&whole[..cut], &[byte][..]].concat());
            }
        }
    }

    #[test]
    fn a_response_says_how_long_it_is() {
        let text = String::from_utf8(response(Status::MethodNotAllowed, "", false)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("Allow: GET, HEAD") && head.contains(&format!("Content-Length: {}", body.len())),
            "{text}"
        );
        let text = String::from_utf8(response(Status::Ok, "figures", true)).unwrap();
        assert!(text.contains("Content-Length: 7") && text.ends_with("\r\n\r\n"), "{text}");
    }
}
