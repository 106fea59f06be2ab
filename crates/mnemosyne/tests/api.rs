//! Programs, regions and logs through the public interface, in memory. Crashes: `everbyte-cases`;
//! C programs: `everbyte-capi`.

use everbyte_log::{Form, Full};
use everbyte_media::{Media, Options};
use everbyte_mnemosyne::{Error, Log, LogOptions, Program, Regions, Variables, path_of};
use everbyte_store::{FormatOptions, ObjectOptions, Store};

const NAME: &str = "pstatic/test";
const PAGE: u64 = 4096;

fn store() -> Store {
    Store::format(Media::anonymous(16 << 20, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

/// Opens the program of a build with this identity and this hash of its variables.
fn open(store: &Store, build: &[u8], layout: Option<u64>) -> everbyte_mnemosyne::Result<Program> {
    let variables = Variables { initial: &[7; PAGE as usize], build, layout: &|| Ok(layout) };
    Program::open(store, NAME, 1 << 20, &variables)
}

#[test]
fn variables_keep_their_values_and_are_initialised_once() {
    let store = store();
    let program = open(&store, b"a build", Some(1)).unwrap();
    let variables = program.variables();
    assert_eq!(store.media().read_vec(variables.start, PAGE as usize), [7; PAGE as usize]);
    store.media().store(variables.start, 42);
    assert!(open(&store, b"a build", Some(1)).is_err(), "it is open already");
    drop(program);
    let program = open(&store, b"a build", Some(1)).unwrap();
    assert_eq!((program.variables(), store.media().load(variables.start)), (variables, 42));
}

#[test]
fn a_block_and_the_address_of_it_appear_together() {
    let store = store();
    let program = open(&store, b"a build", Some(1)).unwrap();
    let target = program.variables().start;
    store.media().store(target, 0);
    let block = program.heap().alloc_into(100, target).unwrap();
    assert_eq!(store.media().load(target), block.at.get());
    program.heap().free_from(target).unwrap();
    assert_eq!(store.media().load(target), 0);
}

/// PROG-1: the identity of the build, or the hash of the variables, must agree.
#[test]
fn a_program_with_other_variables_is_refused() {
    let store = store();
    drop(open(&store, b"a build", Some(1)).unwrap());
    drop(open(&store, b"a build", None).unwrap());
    drop(open(&store, b"another", Some(1)).unwrap());
    for layout in [Some(2), None] {
        let refused = open(&store, b"another", layout).err();
        assert!(matches!(refused, Some(Error::Changed { .. })), "{layout:?}: {refused:?}");
    }
    let initial = [7; 2 * PAGE as usize];
    let longer = Variables { initial: &initial, build: b"a build", layout: &|| Ok(Some(1)) };
    assert!(matches!(Program::open(&store, NAME, 1 << 20, &longer).err(), Some(Error::Changed { .. })));
}

#[test]
fn variables_that_cannot_be_stored_leave_no_program() {
    let store = store();
    let unfit = Variables { initial: &[0; PAGE as usize], build: b"", layout: &|| Err("a reason".into()) };
    let refused = Program::open(&store, NAME, 1 << 20, &unfit).err();
    assert!(matches!(&refused, Some(Error::Unfit { detail, .. }) if detail == "a reason"), "{refused:?}");
    assert!(store.object(NAME).is_err());
}

#[test]
fn the_path_of_the_executable_is_the_last_one_set() {
    let store = store();
    let program = open(&store, b"a build", Some(1)).unwrap();
    let path = || path_of(program.heap().object()).unwrap();
    assert_eq!(path(), None);
    for set in [&b"/bin/one"[..], b"/bin/another", b"/bin/another"] {
        program.set_path(set).unwrap();
        assert_eq!(path().as_deref(), Some(set));
    }
}

#[test]
fn a_region_is_zeros_and_outlives_its_program() {
    let store = store();
    let program = open(&store, b"a build", Some(1)).unwrap();
    let target = program.variables().start;
    let regions = Regions::open(&program).unwrap();
    let region = regions.map(&program, 3 * PAGE - 1, 3, target).unwrap();
    assert_eq!((region.len, store.media().load(target)), (3 * PAGE, region.at));
    assert_eq!(store.media().read_vec(region.at, 3 * PAGE as usize), [0; 3 * PAGE as usize]);
    store.media().store(region.at, 5);
    assert!(regions.hold(region.at) && !regions.hold(region.end()));
    drop(regions);
    drop(program);

    let program = open(&store, b"a build", Some(1)).unwrap();
    let regions = Regions::open(&program).unwrap();
    assert_eq!((regions.list(), store.media().load(region.at)), (vec![region], 5));
}

#[test]
fn unmapping_leaves_the_pieces_beside_the_range_and_removes_an_empty_region() {
    let store = store();
    let program = open(&store, b"a build", Some(1)).unwrap();
    let regions = Regions::open(&program).unwrap();
    let region = regions.map(&program, 3 * PAGE, 3, program.variables().start).unwrap();
    let mut gone = Vec::new();
    assert!(regions.unmap(region.at + PAGE, PAGE, &mut |range| gone.push(range)).unwrap());
    let mut pieces: Vec<_> = regions.list().iter().map(|piece| (piece.at, piece.len)).collect();
    pieces.sort_unstable();
    assert_eq!(pieces, [(region.at, PAGE), (region.at + 2 * PAGE, PAGE)]);
    assert!(!regions.unmap(region.at + PAGE, PAGE, &mut |_| ()).unwrap(), "no piece is left there");
    assert!(gone.is_empty());
    assert!(regions.unmap(region.at, 3 * PAGE, &mut |range| gone.push(range)).unwrap());
    assert_eq!((regions.list(), gone.len()), (vec![], 1));
    assert!(store.object(&format!("{}0", Regions::prefix(NAME))).is_err(), "its object is removed");
}

/// The object is there when its barrier fails: it goes, and the next region takes its name.
#[test]
fn a_region_whose_barrier_failed_is_gone_and_another_can_be_made() {
    let store = store();
    let program = open(&store, b"a build", Some(1)).unwrap();
    let target = program.variables().start;
    let regions = Regions::open(&program).unwrap();
    let other = store.create_object("other", ObjectOptions::default(), |_| Ok::<_, everbyte_store::Error>(()));
    let lost = (other.unwrap().prime() + (32 << 10)).get();
    let first = regions.map(&program, PAGE, 3, target).unwrap();
    regions.unmap(first.at, PAGE, &mut |_| ()).unwrap();
    let (before, media) = (store.media().load(target), store.media());
    media.raise_memory_error(lost);
    media.flush(lost, 8_u64); // the thread's next barrier fails
    regions.map(&program, PAGE, 3, target).unwrap_err();
    let name = format!("{}0", Regions::prefix(NAME));
    assert!(store.object(&name).is_err(), "REGION-2: there is no object without a line");
    assert_eq!((regions.list(), media.load(target)), (vec![], before));
    let region = regions.map(&program, PAGE, 3, target).unwrap();
    assert_eq!((regions.list(), media.load(target)), (vec![region], region.at));
    assert!(store.object(&name).is_ok());
}

#[test]
fn a_region_needs_a_word_of_the_program_for_its_address() {
    let store = store();
    let program = open(&store, b"a build", Some(1)).unwrap();
    let regions = Regions::open(&program).unwrap();
    for target in [0, program.variables().start + 1, u64::MAX - 7] {
        let refused = regions.map(&program, PAGE, 3, target).err();
        assert!(matches!(refused, Some(Error::BadTarget { at, .. }) if at == target), "{target:#x}: {refused:?}");
    }
    assert_eq!(regions.list(), []);
}

#[test]
fn a_log_hands_out_flushed_records_until_they_are_truncated() {
    let store = store();
    let options = |full| LogOptions { size: 4096, form: Form::Torn, full };
    let read = |expected: &[[u64; 2]]| {
        let mut found = Vec::new();
        let log = Log::open(&store, "log", options(Full::Error), |record| found.push(record.to_vec())).unwrap();
        assert_eq!(found, expected);
        log
    };
    let log = read(&[]);
    assert!(Log::open(&store, "log", options(Full::Error), |_| ()).is_err(), "it is open already");
    log.append(&[1, 2]).unwrap();
    log.append(&[3, 4]).unwrap();
    log.flush().unwrap();
    drop(log);
    let log = read(&[[1, 2], [3, 4]]);
    log.flush().unwrap();
    log.truncate().unwrap();
    drop(log);
    drop(read(&[]));
    let program = open(&store, b"a build", Some(1)).unwrap();
    assert!(Log::open(&store, NAME, options(Full::Error), |_| ()).is_err(), "a program is no log");
    drop(program);
}
