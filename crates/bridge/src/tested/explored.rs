//! A list of C++ objects under the crash explorer: opened for the first time, made, changed in
//! place, destroyed and rolled back; and objects with destructors beside it.

use super::*;
use everbyte_media::{Media, museum};
use everbyte_object::{PoolOptions, UntypedPool};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions};

fn image() -> Image {
    Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(2) };
        drop(
            Explored::create_with::<OwnRoots>(&store, "pool", &options, |_| Roots::default()).expect("room for a pool"),
        );
        store.close().expect("sim barriers do not fail");
    })
}

fn attach(media: &Media) -> Result<Store, String> {
    Store::attach(media.clone()).map_err(|error| error.to_string())
}

/// Added to the values of guards.
const OF_GUARD: u64 = 1000;

/// The values, newest first, then those of the guards.
fn values(list: List, handle: &OwnHandle) -> Result<Vec<u64>, String> {
    let mut owned = owned(handle)?;
    let mut next = read(list.at)[1];
    let mut values = Vec::new();
    while next != 0 {
        if !owned.contains(&next) {
            return Err(format!("a pointer to {next:#x}, where no object is"));
        }
        let [value, after] = read(list.node(next));
        values.push(value);
        owned.remove(&next);
        next = after;
    }
    let size = read(list.at)[0];
    if values.len() as u64 != size {
        return Err(format!("{values:?}, of {size}"));
    }
    let mut guards: Vec<u64> = owned.into_iter().map(|at| read(list.node(at))[0].wrapping_add(OF_GUARD)).collect();
    guards.sort_unstable();
    values.extend(guards);
    Ok(values)
}

/// The guard that leads to another one.
fn first_guard(list: List, handle: &OwnHandle) -> Result<Option<u64>, String> {
    let nodes: BTreeSet<u64> = list.nodes().into_iter().map(|(at, _)| at).collect();
    let is_first = |at: &u64| !nodes.contains(at) && read(list.node(*at))[1] != 0;
    Ok(owned(handle)?.into_iter().find(is_first))
}

fn recover(media: &Media, seen: &Seen) -> Result<Vec<u64>, String> {
    let store = attach(media)?;
    let report = UntypedPool::open(&store, "pool").map_err(|error| error.to_string())?.examine(&|_| ());
    drop(store);
    if !report.is_clean() {
        return Err(format!("{report:?}"));
    }
    let handle = open(&attach(media)?)?;
    seen.recovered();
    let list = list(&handle, "list");
    let found = values(list, &handle)?;
    // A later process than the one that made them destroys the guards.
    if let Some(guard) = first_guard(list, &handle)? {
        let ended = txn(|number| list.destroy_guard(number, guard) == DONE);
        let left: Vec<u64> = found.iter().copied().filter(|value| *value < OF_GUARD).collect();
        let now = values(list, &handle)?;
        if ended != DONE || now != [&[2, 1], &left[..]].concat() {
            return Err(format!("{found:?}, and {now:?} after the guards were destroyed"));
        }
    }
    // Usable again; the second generation of a crash.
    assert_eq!(
        txn(|number| {
            list.push(number, 7);
            true
        }),
        DONE
    );
    Ok(found)
}

/// Some steps are left out: a program with a seeded bug could not go on after them.
fn explore(explorer: Explorer, left_out: &[&str]) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(),
        &Vec::new(),
        Order::InOrder,
        |media, twin| {
            let handle = open(&attach(&media).expect("a whole store")).expect("a whole pool");
            let mut opened = None;
            twin.step_here("open", |_| (), || opened = Some(list(&handle, "list")));
            let list = opened.expect("opened");
            let step = |name: &str, change: fn(&mut Vec<u64>), returns: bool, body: &dyn Fn(u64)| {
                if left_out.contains(&name) {
                    return;
                }
                twin_step(twin, name, change, || {
                    let ended = txn(|number| {
                        body(number);
                        returns
                    });
                    assert!(ended == DONE || !returns);
                });
            };
            step("push 1", |all| all.insert(0, 1), true, &|number| list.push(number, 1));
            step("push 2", |all| all.insert(0, 2), true, &|number| list.push(number, 2));
            step("double", |all| all.iter_mut().for_each(|one| *one *= 2), true, &|number| list.double(number));
            step("throw", |_| (), false, &|number| {
                list.pop(number);
                list.push(number, 100);
                list.double(number);
            });
            step("pop and push", |all| all[0] = 9, true, &|number| {
                list.pop(number);
                list.push(number, 9);
            });
            step("guards", |all| all.extend([OF_GUARD + 1, OF_GUARD + 2]), true, &|number| {
                let second = list.make_guard(number, 2, 0);
                list.make_guard(number, 1, second);
            });
            let guard = first_guard(list, &handle).expect("whole objects").unwrap_or_default();
            // Each destructor pushes its value, the one of the first guard before the other's.
            let destroyed = |all: &mut Vec<u64>| {
                all.truncate(all.len() - 2);
                all.splice(0..0, [2, 1]);
            };
            step("throw after a drop", |_| (), false, &|number| assert_done(list.destroy_guard(number, guard)));
            step("drop", destroyed, true, &|number| assert_done(list.destroy_guard(number, guard)));
        },
        |media, seen| recover(&media, seen),
    )
}

fn twin_step(twin: &Twin<'_, Vec<u64>>, name: &str, change: fn(&mut Vec<u64>), body: impl FnOnce()) {
    twin.step_here(name, change, body);
}

/// Every transaction is whole or absent after any crash, recovery's own included, with no leak; and
/// each seeded bug is found: a change whose old bytes are not logged, an object that the pool does
/// not own, one that it owns on, an exception that commits, a destructor that does not run, and one
/// whose object is not logged.
#[test]
fn objects_of_cpp_survive_crashes_anywhere() {
    let _alone = alone();
    destroyed::registered(true);
    let explorer = || Explorer::new("bridge-list").total(600);
    let report = explore(explorer().total(200).depth(2), &[]).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    let bugs: [(&str, &[&str]); 6] = [
        ("bridge-change-unlogged", &["throw"]),
        ("bridge-make-unowned", &["throw", "pop and push", "guards", "throw after a drop", "drop"]),
        ("bridge-destroy-left", &["throw", "guards", "throw after a drop", "drop"]),
        ("bridge-exception-commits", &["throw after a drop"]),
        ("bridge-destructor-skipped", &[]),
        ("bridge-destructor-unlogged", &[]),
    ];
    for (bug, left_out) in bugs {
        assert!(museum::with(bug, || explore(explorer(), left_out).is_err()), "the seeded bug `{bug}` is not found");
    }
}
