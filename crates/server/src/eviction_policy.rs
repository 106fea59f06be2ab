//! The names of the policies by which keys are evicted, and sizes as redis.conf has them.

use std::str::FromStr;

/// The order in which keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The one used longest ago first.
    Lru,
    /// The one used least often first.
    Lfu,
    /// Any.
    Random,
    /// The one whose deadline comes first.
    Ttl,
}

/// The choice of keys that are evicted, as Redis's `maxmemory-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EvictionPolicy {
    /// None: commands that need space are refused.
    #[default]
    NoEviction,
    /// The key used longest ago.
    AllKeysLru,
    /// The key used least often.
    AllKeysLfu,
    /// Any key.
    AllKeysRandom,
    /// The key with a deadline that was used longest ago.
    VolatileLru,
    /// The key with a deadline that was used least often.
    VolatileLfu,
    /// Any key with a deadline.
    VolatileRandom,
    /// The key whose deadline comes first.
    VolatileTtl,
}

impl EvictionPolicy {
    /// All of them, in the order in which Redis lists them.
    pub const ALL: [EvictionPolicy; 8] = [
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLfu,
        EvictionPolicy::VolatileRandom,
        EvictionPolicy::VolatileTtl,
        EvictionPolicy::AllKeysLru,
        EvictionPolicy::AllKeysLfu,
        EvictionPolicy::AllKeysRandom,
        EvictionPolicy::NoEviction,
    ];

    /// Redis's name.
    pub fn name(self) -> &'static str {
        match self {
            EvictionPolicy::NoEviction => "noeviction",
            EvictionPolicy::AllKeysLru => "allkeys-lru",
            EvictionPolicy::AllKeysLfu => "allkeys-lfu",
            EvictionPolicy::AllKeysRandom => "allkeys-random",
            EvictionPolicy::VolatileLru => "volatile-lru",
            EvictionPolicy::VolatileLfu => "volatile-lfu",
            EvictionPolicy::VolatileRandom => "volatile-random",
            EvictionPolicy::VolatileTtl => "volatile-ttl",
        }
    }

    /// The policy of this name, in any case.
    pub fn named(name: &[u8]) -> Option<EvictionPolicy> {
        EvictionPolicy::ALL.into_iter().find(|policy| policy.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether keys are evicted.
    pub(crate) fn evicts(self) -> bool {
        self.order().is_some()
    }

    /// The order; `None`: no key is evicted.
    pub(crate) fn order(self) -> Option<Order> {
        Some(match self {
            EvictionPolicy::NoEviction => return None,
            EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru => Order::Lru,
            EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu => Order::Lfu,
            EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom => Order::Random,
            EvictionPolicy::VolatileTtl => Order::Ttl,
        })
    }

    /// Whether keys without a deadline stay.
    pub(crate) fn is_volatile(self) -> bool {
        match self {
            EvictionPolicy::VolatileLru
            | EvictionPolicy::VolatileLfu
            | EvictionPolicy::VolatileRandom
            | EvictionPolicy::VolatileTtl => true,
            EvictionPolicy::NoEviction
            | EvictionPolicy::AllKeysLru
            | EvictionPolicy::AllKeysLfu
            | EvictionPolicy::AllKeysRandom => false,
        }
    }

    /// Whether the frequency of use decides.
    pub(crate) fn is_lfu(self) -> bool {
        self.order() == Some(Order::Lfu)
    }
}

impl FromStr for EvictionPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<EvictionPolicy, String> {
        let names = || EvictionPolicy::ALL.map(EvictionPolicy::name).join(", ");
        EvictionPolicy::named(text.as_bytes()).ok_or_else(|| format!("`{text}` is none of {}", names()))
    }
}

/// Bytes in the form of redis.conf: a number, and `k`, `kb`, `m`, `mb`, `g` or `gb`.
pub fn parse_size(text: &[u8]) -> Option<u64> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match &text[end..].to_ascii_lowercase()[..] {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    std::str::from_utf8(&text[..end]).ok()?.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_redis_conf() {
        for (text, bytes) in [("0", Some(0)), ("100mb", Some(100 << 20)), ("1K", Some(1000)), ("2Gb", Some(2 << 30))] {
            assert_eq!(parse_size(text.as_bytes()), bytes);
        }
        for text in ["", "mb", "-1", "1.5", "1 k", "99999999999999999999", "20000000000g"] {
            assert_eq!(parse_size(text.as_bytes()), None, "{text}");
        }
    }
}
