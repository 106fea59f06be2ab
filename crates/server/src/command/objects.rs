//! OBJECT and MEMORY: how values are kept, in the words of Redis.
//!
//! The encodings are those that Redis would choose for the value as it is now: clients and their
//! tests ask for them. Here all elements lie in one tree.

use super::describe;
use super::fail::{NOT_INTEGER, SYNTAX};
use super::{Call, Fail, Outcome, is_word};
use crate::keyspace::{Collection, DATABASES, ElementSpan, HashedMember, ValueType};
use crate::resp::number::parse_integer;

/// A string of Redis up to this size lies in its object.
const EMBEDDED_MAX: usize = 44;
/// Fields of a small hash of Redis.
const FIELDS_MAX: u64 = 512;
/// Members of a small sorted set of Redis.
const MEMBERS_MAX: u64 = 128;
/// Bytes of its longest element.
const SMALL_SIZE: usize = 64;
/// Members of a small set of integers of Redis.
const INTEGERS_MAX: u64 = 512;
/// Bytes that an entry of a tree costs beside its own, about.
const ENTRY: u64 = 16;

/// `OBJECT ENCODING key`
pub(super) fn encoding(call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.get(2);
    let Some(kind) = call.keys.kind(key)? else {
        call.out.null();
        return Ok(());
    };
    let name = match kind {
        ValueType::String => string_encoding(call, key)?,
        ValueType::List => "quicklist",
        ValueType::Stream => "stream",
        ValueType::Set if is_small(call, key, kind, INTEGERS_MAX, &|member, _| parse_integer(member).is_some())? => {
            "intset"
        }
        ValueType::Set => "hashtable",
        ValueType::Hash | ValueType::SortedSet => {
            let small = |member: &[u8], value: &[u8]| member.len() <= SMALL_SIZE && value.len() <= SMALL_SIZE;
            let count = if kind == ValueType::Hash { FIELDS_MAX } else { MEMBERS_MAX };
            match (is_small(call, key, kind, count, &small)?, kind) {
                (true, _) => "listpack",
                (false, ValueType::Hash) => "hashtable",
                (false, _) => "skiplist",
            }
        }
    };
    call.out.bulk(name.as_bytes());
    Ok(())
}

fn string_encoding(call: &mut Call<'_, '_>, key: &[u8]) -> Result<&'static str, Fail> {
    if call.keys.size(key)?.unwrap_or(0) > EMBEDDED_MAX {
        return Ok("raw");
    }
    let value = call.keys.get(key)?.unwrap_or_default();
    Ok(if parse_integer(&value).is_some() { "int" } else { "embstr" })
}

/// Whether a collection has at most `count` elements, and each of them fits.
fn is_small(
    call: &mut Call<'_, '_>,
    key: &[u8],
    kind: ValueType,
    count: u64,
    fits: &dyn Fn(&[u8], &[u8]) -> bool,
) -> Result<bool, Fail> {
    let Some(of) = call.keys.collection(key, kind)?.filter(|of| of.count <= count) else { return Ok(false) };
    let mut small = true;
    call.keys.walk_members(&of, 0, true, &mut |HashedMember { member, value, .. }| {
        small = fits(member, value);
        small
    })?;
    Ok(small)
}

/// Writes a number for a key that is there, else null.
fn number_of(call: &mut Call<'_, '_>, number: i64) -> Outcome {
    match call.keys.contains(call.args.get(2))? {
        true => call.out.integer(number),
        false => call.out.null(),
    }
    Ok(())
}

/// `OBJECT REFCOUNT key`: a value belongs to its key alone.
pub(super) fn refcount(call: &mut Call<'_, '_>) -> Outcome {
    number_of(call, 1)
}

/// `OBJECT IDLETIME key`: 0 unless a policy asks for the times of accesses.
pub(super) fn idletime(call: &mut Call<'_, '_>) -> Outcome {
    let (database, now) = (call.keys.database(), call.keys.now());
    if call.shared.options.eviction_policy.is_lfu() && call.keys.contains(call.args.get(2))? {
        return Err(Fail::text(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
             policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    let idle = call.shared.data_bound.idle(database, call.args.get(2), now);
    number_of(call, (idle.unwrap_or(0) / 1000) as i64)
}

/// `OBJECT FREQ key`, under the policies that ask for frequencies.
pub(super) fn freq(call: &mut Call<'_, '_>) -> Outcome {
    if !call.keys.contains(call.args.get(2))? {
        call.out.null();
        return Ok(());
    }
    if call.shared.options.eviction_policy.is_lfu() {
        let (database, now) = (call.keys.database(), call.keys.now());
        call.out.integer(i64::from(call.shared.data_bound.frequency(database, call.args.get(2), now)));
        return Ok(());
    }
    Err(Fail::text(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
         between policies at runtime LRU and LFU data will take some time to adjust.",
    ))
}

/// `OBJECT HELP`
pub(super) fn object_help(call: &mut Call<'_, '_>) -> Outcome {
    describe::help_of(call, "object")
}

/// `MEMORY USAGE key [SAMPLES count]`: the bytes of a key and its value in the store, about; of a
/// collection by its first elements.
pub(super) fn usage(call: &mut Call<'_, '_>) -> Outcome {
    let (key, mut samples) = (call.args.get(2), 5);
    let mut rest = call.args.from(3);
    while let Some(option) = rest.next() {
        let count = rest.next().filter(|_| is_word(option, "samples")).ok_or(SYNTAX)?;
        samples = match parse_integer(count).ok_or(NOT_INTEGER)? {
            ..=-1 => return Err(SYNTAX),
            0 => u64::MAX,
            count => count.unsigned_abs(),
        };
    }
    let Some(kind) = call.keys.kind(key)? else {
        call.out.null();
        return Ok(());
    };
    let value = match kind {
        ValueType::String => call.keys.size(key)?.unwrap_or(0) as u64,
        kind => match call.keys.collection(key, kind)? {
            Some(of) => elements(call, &of, samples)?,
            None => 0,
        },
    };
    call.out.integer((value + key.len() as u64 + ENTRY) as i64);
    Ok(())
}

/// The bytes of a collection's elements, by its first ones.
fn elements(call: &mut Call<'_, '_>, of: &Collection, samples: u64) -> Result<u64, Fail> {
    let (mut seen, mut size) = (0, 0);
    call.keys.visit_elements(of, ElementSpan::ALL, &mut |element, value| {
        seen += 1;
        size += element.len() as u64 + value.len() as u64 + ENTRY;
        seen < samples
    })?;
    // A sorted set has two elements for each member.
    let count = if of.kind == ValueType::SortedSet { of.count.saturating_mul(2) } else { of.count };
    let all = u128::from(size) * u128::from(count) / u128::from(seen.max(1));
    Ok(u64::try_from(all).unwrap_or(u64::MAX).min(i64::MAX as u64 / 2))
}

/// `MEMORY STATS`: figures of the process, under Redis's names.
pub(super) fn stats(call: &mut Call<'_, '_>) -> Outcome {
    let (resident, peak) = super::info::process_memory();
    let clients: usize = call.others.iter().map(|other| other.memory()).sum();
    let here = call.keys.database();
    let mut keys = 0;
    for database in 0..DATABASES as u8 {
        call.keys.select(database);
        keys += call.keys.len()?;
    }
    call.keys.select(here);
    let figures = [
        ("peak.allocated", peak),
        ("total.allocated", resident),
        ("clients.normal", clients as u64),
        ("keys.count", keys),
    ];
    call.out.map(figures.len());
    for (name, figure) in figures {
        call.out.bulk(name.as_bytes());
        call.out.integer(figure as i64);
    }
    Ok(())
}

/// `MEMORY DOCTOR`
pub(super) fn doctor(call: &mut Call<'_, '_>) -> Outcome {
    call.out.text(
        "Keys and values lie in the store, not in the memory of this process. INFO memory shows the memory of the \
         process and, with a bound, the bytes of the data (used_memory_dataset), INFO persistence the store.\n",
    );
    Ok(())
}

/// `MEMORY MALLOC-STATS`
pub(super) fn malloc_stats(call: &mut Call<'_, '_>) -> Outcome {
    call.out.text("Stats not supported for the current allocator");
    Ok(())
}

/// `MEMORY PURGE`: freed memory is returned without being asked.
pub(super) fn purge(call: &mut Call<'_, '_>) -> Outcome {
    call.out.ok();
    Ok(())
}

/// `MEMORY HELP`
pub(super) fn memory_help(call: &mut Call<'_, '_>) -> Outcome {
    describe::help_of(call, "memory")
}
