//! A case of entries with deadlines: an entry and its place in the index of deadlines change
//! together.

use crate::kv::{open, value};
use crate::kv_tables::image;
use crate::{Case, TOTAL};
use everbyte_kv::raw::Raw as _;
use everbyte_kv::{ExpiringTable, Kv, ManualClock};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Seen};
use everbyte_store::FindingKind;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const CASES: &[Case] = &[Case {
    name: "kv-ttl",
    crate_name: "kv",
    about: "entries with deadlines are put, replaced, deleted and swept: each is whole, its deadline in the index",
    total: TOTAL,
    program: ttl,
}];

/// By key: the deadline, and the value.
type Entries = BTreeMap<Vec<u8>, (Option<SystemTime>, Vec<u8>)>;

fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn table(kv: &Kv, now: u64) -> Result<ExpiringTable, String> {
    let clock = ManualClock::default();
    clock.set(time(now));
    ExpiringTable::open(kv, "t", clock).map_err(|error| error.to_string())
}

/// All entries: at time 0 none has expired.
fn read(kv: &Kv) -> Result<Entries, String> {
    let text = |error: everbyte_kv::Error| error.to_string();
    let table = table(kv, 0)?;
    let mut all = Entries::new();
    for pair in table.range::<[u8]>(..).map_err(text)? {
        let (key, value) = pair.map_err(text)?;
        let deadline = table.deadline(&key).map_err(text)?.ok_or("a key is gone")?;
        all.insert(key, (deadline, value));
    }
    let mut findings = table.check().map_err(text)?;
    findings.extend(kv.check());
    findings.extend(kv.store().check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if findings.is_empty() { Ok(all) } else { Err(format!("check: {findings:?}")) }
}

fn observe(media: &Media, seen: &Seen) -> Result<Entries, String> {
    let text = |error: everbyte_kv::Error| error.to_string();
    let kv = open(media)?;
    seen.recovered();
    let all = read(&kv)?;
    // Later, a sweep leaves the entries without a deadline and no other.
    while table(&kv, 1 << 40)?.expire(2).map_err(text)?.more {}
    let mut rest = all.clone();
    rest.retain(|_, (deadline, _)| deadline.is_none());
    let found = read(&kv)?;
    if found == rest { Ok(all) } else { Err(format!("{rest:?} expected after a sweep, found {found:?}")) }
}

fn ttl(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let fill = || (0..6_u8).map(|key| (vec![key], 100 + u64::from(key), value(key, 20)));
    let start: Entries = fill().map(|(key, at, value)| (key, (Some(time(at)), value))).collect();
    let image = image(&|kv| {
        let table = ExpiringTable::open_or_create(kv, "t", ManualClock::default()).expect("room");
        fill().for_each(|(key, at, value)| table.put_until(&key, &value, time(at)).expect("room"));
    });
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            let early = table(&kv, 0).expect("a whole table");
            for round in 0..3_u8 {
                let put = move |all: &mut Entries| {
                    all.insert(vec![round], (Some(time(500)), value(round + 10, 700)));
                    all.insert(vec![20 + round], (None, value(round, 20)));
                };
                twin.step(format!("put {round}"), put, || {
                    let mut batch = kv.batch();
                    let mut face = early.in_batch(&mut batch).expect("live");
                    face.put_until(&[round], &value(round + 10, 700), time(500)).expect("room");
                    face.put(&[20 + round], &value(round, 20)).expect("room");
                    let commit = batch.commit().expect("room");
                    kv.settle(commit).expect("sim barriers do not fail");
                });
            }
            let delete = |all: &mut Entries| drop(all.remove(&vec![3]));
            twin.step("delete", delete, || early.delete(&[3]).map(drop).expect("room"));
            let unbind = |all: &mut Entries| drop(all.insert(vec![5], (None, value(9, 20))));
            twin.step("no deadline any more", unbind, || early.put(&[5], &value(9, 20)).expect("room"));
            let late = table(&kv, 600).expect("a whole table");
            for sweep in 0..2 {
                let mut due: Vec<_> = twin.model().into_iter().filter_map(|(key, (at, _))| Some((at?, key))).collect();
                due.sort();
                due.truncate(2);
                let gone = move |all: &mut Entries| due.iter().for_each(|(_, key)| drop(all.remove(key)));
                twin.step(format!("sweep {sweep}"), gone, || {
                    late.expire(2).expect("room");
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}
