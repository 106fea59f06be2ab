//! Seeds and lengths of runs, from the environment.
//!
//! Swarm tests are many random programs, each of which draws its options too (sizes, mix of
//! operations, fill levels). A bug that one mix hides shows in another: a program that never
//! deletes grows, one with three keys reuses every slot.

use crate::Random;
use std::env;

/// The number in the environment variable `name`; none if it is not set.
///
/// # Panics
/// If the text is no number: a typing error must not run another program.
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(parse(&text).unwrap_or_else(|| panic!("{name}={text}: a number is decimal, or 0x and hexadecimal")))
}

fn parse(text: &str) -> Option<u64> {
    match text.trim().strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

/// The seed in `EVERBYTE_SEED`, if it is set.
pub fn given_seed() -> Option<u64> {
    number("EVERBYTE_SEED")
}

/// The seed of a random test: the one in `EVERBYTE_SEED`, else `usual`. Prints the line that
/// repeats the test, `cargo test` with the words `test`.
pub fn seed(usual: u64, test: &str) -> u64 {
    let seed = given_seed().unwrap_or(usual);
    println!("replay: EVERBYTE_SEED={seed:#x}{} cargo test {test}", length());
    seed
}

/// The variable that asks for a long run, for a line that repeats one.
fn length() -> String {
    soak().map_or_else(String::new, |count| format!(" EVERBYTE_SOAK={count}"))
}

/// The number in `EVERBYTE_SOAK`, if it is set.
pub fn soak() -> Option<u64> {
    number("EVERBYTE_SOAK")
}

/// Whether `EVERBYTE_SOAK` asks for a long run.
pub fn is_long() -> bool {
    soak().is_some()
}

/// `usual`, or `long` in a long run.
pub fn long_or(usual: u64, long: u64) -> u64 {
    if is_long() { long } else { usual }
}

/// The number in `EVERBYTE_ROUND`, else 0.
pub fn round() -> u64 {
    number("EVERBYTE_ROUND").unwrap_or(0)
}

/// Runs `program` with the seed in `EVERBYTE_SEED`, or with `usual` seeds, or in a long run with as
/// many as `EVERBYTE_SOAK` says. The second argument says whether the run is a long one, in which
/// the program may draw options that take minutes. Prints each seed before its program runs.
pub fn programs(usual: u64, mut program: impl FnMut(&mut Random, bool)) {
    let mut run = |seed: u64| {
        println!("replay: EVERBYTE_SEED={seed:#x}{}", if is_long() { " EVERBYTE_SOAK=1" } else { "" });
        program(&mut Random::new(seed), is_long());
    };
    match given_seed() {
        Some(seed) => run(seed),
        None => {
            let count = soak().unwrap_or(usual);
            let first = round() * count + 1;
            (first..first + count).for_each(|number| run(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        assert_eq!((parse("12"), parse("0x1F"), parse(" 7\n")), (Some(12), Some(31), Some(7)));
        assert_eq!((parse("1f"), parse(""), parse("0x")), (None, None, None));
    }
}
