//! Which of several servers has a key: the ketama ring, for clients that spread their keys.
//!
//! Each server has some 160 points on a ring of 32-bit numbers, in proportion to its weight; a key
//! belongs to the server of the first point at or behind its own. A server that comes or goes moves
//! the keys of its points alone, about one in N. Points and keys are those of libketama, which
//! clients and proxies (libmemcached, twemproxy with `hash: md5`) compute alike.
//!
//! The servers know nothing of it: a command whose keys belong to several servers is the client's
//! to split.

use md5::{Digest, Md5};

/// Points that one digest gives.
const OF_DIGEST: usize = 4;
/// Digests of a server of average weight.
const DIGESTS: u128 = 40;

/// See the head of this file.
///
/// ```
/// use everbyte_server::Ring;
/// let ring = Ring::new([("10.0.1.1:6380", 1), ("10.0.1.2:6380", 1)]).unwrap();
/// assert!(ring.server(b"user:7").starts_with("10.0.1."));
/// ```
#[derive(Clone, Debug)]
pub struct Ring {
    names: Vec<String>,
    /// Points and the servers that have them, in order.
    points: Vec<(u32, usize)>,
}

fn digest(bytes: &[u8]) -> [u32; OF_DIGEST] {
    let digest: [u8; 16] = Md5::digest(bytes).into();
    std::array::from_fn(|part| {
        let at = 4 * part;
        u32::from_le_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]])
    })
}

impl Ring {
    /// The ring of these servers, each with its weight. The names decide where the points are: all
    /// clients give the same ones, as `host:port`. `None` if no server has a weight.
    pub fn new<N: Into<String>>(servers: impl IntoIterator<Item = (N, u32)>) -> Option<Ring> {
        let servers: Vec<(String, u32)> = servers.into_iter().map(|(name, weight)| (name.into(), weight)).collect();
        let total: u128 = servers.iter().map(|(_, weight)| u128::from(*weight)).sum();
        let mut points = Vec::new();
        for (index, (name, weight)) in servers.iter().enumerate() {
            let digests = (u128::from(*weight) * DIGESTS * servers.len() as u128).checked_div(total)?;
            for number in 0..digests {
                points.extend(digest(format!("{name}-{number}").as_bytes()).map(|point| (point, index)));
            }
        }
        points.sort_unstable();
        let names = servers.into_iter().map(|(name, _)| name).collect();
        (!points.is_empty()).then_some(Ring { names, points })
    }

    /// The name of the server that has a key.
    pub fn server(&self, key: &[u8]) -> &str {
        let (_, index) = self.place(key);
        &self.names[index]
    }

    /// The point of a key's server, and the server.
    fn place(&self, key: &[u8]) -> (u32, usize) {
        let [hash, ..] = digest(key);
        let at = self.points.partition_point(|(point, _)| *point < hash);
        self.points[at % self.points.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libketama's own example, whose program prints for each key its hash, the point, and the
    /// server. The sum over a thousand lines is that of the C program.
    #[test]
    fn points_and_servers_are_those_of_libketama() {
        let weights = [600, 300, 200, 350, 1000, 800, 950, 100];
        let servers = (1..).zip(weights).map(|(host, weight)| (format!("10.0.1.{host}:11211"), weight));
        let ring = Ring::new(servers).unwrap();
        let line = |key: u32| {
            let key = key.to_string();
            let (point, index) = ring.place(key.as_bytes());
            format!("{} {point} {}\n", digest(key.as_bytes())[0], ring.names[index])
        };
        assert_eq!(line(0), "2216742351 2217271743 10.0.1.1:11211\n");
        assert_eq!(line(7), "1608782991 1609789509 10.0.1.3:11211\n");
        let lines: String = ["\n".to_string()].into_iter().chain((0..1000).map(line)).collect();
        let sum: [u8; 16] = Md5::digest(lines.as_bytes()).into();
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sum, "d1a4912a80e4654ec2e4e462c8b911c6");
        // Its hash is behind the last point.
        assert_eq!(digest(b"VDEAAAAA")[0], 0xfffc_d1b5);
        assert_eq!(ring.place(b"VDEAAAAA"), ring.points[0]);
    }

    /// TB07: a fourth server takes a quarter of the keys, and no key moves between the others.
    #[test]
    fn a_server_that_comes_takes_its_share_alone() {
        let names = ["a:1", "b:1", "c:1", "d:1"];
        let of = |count: usize| Ring::new(names[..count].iter().map(|name| (*name, 1))).unwrap();
        let (three, four) = (of(3), of(4));
        let mut moved = 0;
        for key in 0..10_000 {
            let key = format!("key:{key}");
            let (before, after) = (three.server(key.as_bytes()), four.server(key.as_bytes()));
            assert!(before == after || after == "d:1", "{key} moves from {before} to {after}");
            moved += u32::from(before != after);
        }
        assert_eq!(moved, 2536);
        assert!(Ring::new([("a", 0)]).is_none() && Ring::new(Vec::<(String, u32)>::new()).is_none());
    }
}
