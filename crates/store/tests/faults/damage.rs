//! Bytes of the metadata that changed by themselves: nothing panics, and whatever could matter is
//! noticed.

use everbyte_media::{Checked, Format, Length, Media, Offset, Options};
use everbyte_store::layout::{Header, Record, Superblock, header};
use everbyte_store::{CLUSTER, Engine, Error, FormatOptions, ObjectOptions, Plan, Store};
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

const MAX: u64 = 1 << 20;

fn media_of(image: &[u8]) -> Media {
    // Nothing crashes here: flushes are left out to save their time.
    let options = Options { flush_on_fail: true, ..Options::default() };
    let media = Media::anonymous(MAX, &options).unwrap();
    for (page, bytes) in image.chunks(4096).enumerate() {
        if bytes.iter().any(|&byte| byte != 0) {
            media.write(page as u64 * 4096, bytes);
        }
    }
    media
}

/// Everything about a store that its users could notice.
fn state(store: &Store) -> Result<String, Error> {
    let mut state = format!("{:?} {}\n", store.identity(), store.info().max);
    for info in store.objects()? {
        let object = store.object(&info.name)?;
        let words: Vec<Option<u64>> = (object.prime().get()..object.backed().get())
            .step_by(CLUSTER as usize)
            .map(|at| object.is_backed(at).then(|| object.media().load(at + 4096)))
            .collect();
        state += &format!("{info:?} root {} holes {:?} words {words:?}\n", object.root(), object.holes());
    }
    Ok(state)
}

/// A closed store with three objects, one of them with a hole, and where its metadata lies.
fn sample() -> (Vec<u8>, Plan, Vec<u64>) {
    let media = Media::anonymous(MAX, &Options::default()).unwrap();
    let options = FormatOptions { identity: Some([7; 16]), log_len: 64 << 10 };
    let store = Store::format(media.clone(), &options).unwrap();
    let mut primes = vec![];
    for (name, span, clusters) in [("first", 4, 3), ("second/part", 2, 1), ("third", 1, 0)] {
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0xabc, span: Some(span * CLUSTER) };
        let object = store.create_object(name, options, |object| object.grow(clusters * CLUSTER).map(drop)).unwrap();
        for at in (object.prime().get()..object.backed().get()).step_by(CLUSTER as usize) {
            media.store(at + 4096, at);
        }
        object.set_root((object.prime() + 8192).get());
        primes.push(object.prime().get());
        if name == "first" {
            object.release(object.prime() + 2 * CLUSTER..object.prime() + 3 * CLUSTER).unwrap();
        }
    }
    store.close().unwrap();
    (media.read_vec(0, MAX as usize), Plan::new(MAX, 64 << 10).unwrap(), primes)
}

/// Opens a changed image and demands: an error, a finding, a repair, or the same state as before.
fn detected_or_harmless(image: &[u8], good: &str, change: &str) {
    let store = match Store::attach(media_of(image)) {
        Ok(store) => store,
        Err(error) => {
            assert!(!matches!(error, Error::Media(_)), "{change}: {error}");
            return;
        }
    };
    let noticed = store.check();
    let repaired = !store.recovery().superblocks.is_empty() || !store.recovery().growths.is_empty();
    match state(&store) {
        Ok(state) if state == good => {}
        Ok(state) => assert!(!noticed.is_empty(), "{change}: no check noticed\n{state}"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(!noticed.is_empty() || repaired, "{change}: {error}, and `check` finds nothing");
        }
    }
    // After any finding, further use of the store never panics.
    let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
    let made = store.create_object("new", options, |object| object.grow(0).map(drop));
    if let Ok(object) = made {
        let [mine, _] = [object.span(), object.span()];
        for name in ["first", "second/part", "third"] {
            if let Ok(other) = store.object(name) {
                assert!(other.span().end <= mine.start || mine.end <= other.span().start, "{change}: double use");
                let _ = other.grow(CLUSTER);
            }
        }
    }
    for name in ["first", "second/part", "third", "new"] {
        let _ = store.remove_object(name);
    }
    let _ = (store.trim(), store.check(), store.info(), store.close());
}

#[test]
fn every_flipped_bit_of_the_metadata_is_detected_or_harmless() {
    let (image, plan, primes) = sample();
    let good = state(&Store::attach(media_of(&image)).unwrap()).unwrap();
    let record = size_of::<Record>() as u64;
    let mut places = vec![(0, 1200), (4096, 4096 + 1200)]; // superblocks and words
    places.push((plan.table_at, plan.table_at + 4 * record));
    places.push((plan.space.bitmap_at, plan.space.bitmap_at + 16));
    places.push((plan.space.used_at, plan.space.used_at + 16));
    for prime in primes {
        // The root word is the engine's: the store does not know its meaning.
        places.push((prime, prime + header::ROOT));
        places.push((prime + header::ROOT + 8, prime + size_of::<Header>() as u64));
    }
    for at in places.into_iter().flat_map(|(from, to)| from..to) {
        // One bit of every byte, and all bits of every fifth.
        for mask in [1u8 << (at % 8), 0xff].into_iter().take(if at % 5 == 0 { 2 } else { 1 }) {
            let mut changed = image.clone();
            changed[at as usize] ^= mask;
            detected_or_harmless(&changed, &good, &format!("{at:#x} ^ {mask:#x}"));
        }
    }
}

#[test]
fn one_torn_superblock_is_repaired_and_two_are_an_error() {
    let (image, ..) = sample();
    for copy in [0usize, 4096] {
        let mut torn = image.clone();
        torn[copy + 100..copy + 200].fill(0xa5);
        let media = media_of(&torn);
        let store = Store::attach(media.clone()).unwrap();
        assert_eq!(store.recovery().superblocks, [copy as u64]);
        assert_eq!(store.check(), []);
        drop(store);
        assert_eq!(media.read_vec(copy as u64, 512), &image[copy..copy + 512]);
        let mut gone = image.clone();
        gone[copy..copy + 4096].fill(0);
        // The words of the other copy serve.
        assert!(Store::attach(media_of(&gone)).unwrap().objects().unwrap().len() == 3);
    }
    let mut torn = image.clone();
    torn[100] ^= 1;
    torn[4196] ^= 1;
    let error = Store::attach(media_of(&torn)).unwrap_err();
    assert!(matches!(&error, Error::Damaged(damage) if damage.offset == Some(0)), "{error}");
}

/// A refused store is not changed by a single byte.
#[test]
fn what_is_not_our_store_is_refused_and_left_alone() {
    let (image, ..) = sample();
    let superblock = Superblock::read_from_bytes(&image[..512]).unwrap();
    let with = |change: &dyn Fn(&mut Superblock)| {
        let mut changed = superblock;
        change(&mut changed);
        let mut image = image.clone();
        image[..512].copy_from_slice(changed.sealed().as_bytes());
        image[4096..4608].copy_from_slice(changed.sealed().as_bytes());
        image
    };
    type Expect = fn(&Error) -> bool;
    let cases: Vec<(Vec<u8>, Expect)> = vec![
        (vec![0; MAX as usize], |error| matches!(error, Error::NotAStore { .. } | Error::Unfinished { .. })),
        (vec![0x55; MAX as usize], |error| matches!(error, Error::NotAStore { .. })),
        (with(&|superblock| superblock.format = 2), |error| {
            matches!(error, Error::NewerFormat { format: Format { found: 2, .. }, .. })
        }),
        (with(&|superblock| superblock.features = 1 << 40), |error| matches!(error, Error::NewerFormat { .. })),
        (with(&|superblock| superblock.binding = 1 << 45), |error| matches!(error, Error::Damaged { .. })),
        (with(&|superblock| superblock.max = Length::new(2 << 20)), |error| matches!(error, Error::Damaged { .. })),
        (with(&|superblock| superblock.cluster = Length::new(4096)), |error| matches!(error, Error::Damaged { .. })),
        (with(&|superblock| superblock.table_slots = u64::MAX), |error| matches!(error, Error::Damaged { .. })),
        (with(&|superblock| superblock.bitmap_len = Length::new(!4095)), |error| {
            matches!(error, Error::Damaged { .. })
        }),
        (with(&|superblock| superblock.spans_at = Offset::new(MAX)), |error| matches!(error, Error::Damaged { .. })),
        (with(&|superblock| superblock.log_at = Offset::new(0)), |error| matches!(error, Error::Damaged { .. })),
    ];
    for (index, (image, expect)) in cases.into_iter().enumerate() {
        let media = media_of(&image);
        let error = Store::attach(media.clone()).unwrap_err();
        assert!(expect(&error), "case {index}: {error}");
        assert!(media.read_vec(0, MAX as usize) == image, "case {index}: changed though refused");
        let refused = Store::format(media.clone(), &FormatOptions::default());
        if index > 0 {
            assert!(matches!(refused, Err(Error::NotEmpty { .. })), "case {index}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Garbage in any of the structures, also under a good checksum, ends in an error or a usable
    /// store.
    #[test]
    fn garbage_never_panics(
        which in 0usize..5,
        fields in prop::collection::vec((0usize..64, prop_oneof![
            any::<u64>(), Just(0), Just(u64::MAX), (0u32..64).prop_map(|bit| 1 << bit),
            (0u64..32).prop_map(|clusters| clusters * CLUSTER), Just(0x2020_2020_2020_2020),
        ]), 1..5),
        seal in any::<bool>(),
    ) {
        let (mut image, plan, primes) = sample();
        let (at, len) = [
            (0, 512),
            (plan.table_at, 256),
            (plan.table_at + 256, 256),
            (primes[0], 512),
            (plan.space.bitmap_at, 64),
        ][which];
        let (at, end) = (at as usize, (at + len) as usize);
        for (word, value) in fields {
            let place = at + word * 8 % (end - at);
            image[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        if seal {
            match which {
                0 => {
                    let sealed = Superblock::read_from_bytes(&image[at..end]).unwrap().sealed();
                    image[at..end].copy_from_slice(sealed.as_bytes());
                    image[4096..4608].copy_from_slice(sealed.as_bytes());
                }
                1 | 2 => {
                    let sealed = Record::read_from_bytes(&image[at..end]).unwrap().sealed();
                    image[at..end].copy_from_slice(sealed.as_bytes());
                }
                3 => {
                    let sealed = Header::read_from_bytes(&image[at..end]).unwrap().sealed();
                    image[at..end].copy_from_slice(sealed.as_bytes());
                }
                _ => {}
            }
        }
        if let Ok(store) = Store::attach(media_of(&image)) {
            let _ = (store.check(), state(&store), store.info());
            let _ = store.create_object("new", ObjectOptions::default(), |object| object.grow(1).map(drop));
            for name in ["first", "second/part", "third", "new"] {
                if let Ok(object) = store.object(name) {
                    let _ = object.grow(CLUSTER);
                    let _ = object.release(object.prime() + CLUSTER..object.backed());
                }
                let _ = store.remove_object(name);
            }
            let _ = (store.trim(), store.check(), store.close());
        }
    }
}

/// Clusters that are marked and that no object has: reported, given back by `repair`, and nothing
/// else changes.
#[test]
fn clusters_without_an_owner_are_found_and_given_back() {
    use everbyte_space::{Space, SpaceLayout};
    use everbyte_store::FindingKind;
    let (image, _, _) = sample();
    let media = media_of(&image);
    let superblock: Superblock = media.get(0);
    let store = Store::attach(media.clone()).unwrap();
    let before = state(&store).unwrap();
    let layout = SpaceLayout {
        bitmap_at: superblock.bitmap_at.get(),
        used_at: superblock.used_at.get(),
        bitmap_len: superblock.bitmap_len.get(),
    };
    let lost = 14 * CLUSTER..16 * CLUSTER;
    let space = Space::new(media.clone(), layout);
    space.prepare(&lost, &Default::default());
    space.set_backed(&lost);
    let findings = store.check();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].kind, findings[0].at), (FindingKind::Leak, lost.start));
    let done = store.repair().unwrap();
    assert_eq!(done.len(), 1, "{done:?}");
    assert_eq!((store.check(), state(&store).unwrap()), (vec![], before));
    assert_eq!(store.repair().unwrap(), []);
    // While a record is damaged they could be its object's.
    space.set_backed(&lost);
    media.store(superblock.table_at + 8, media.load(superblock.table_at + 8) ^ 1);
    assert!(matches!(Store::attach(media).unwrap().repair(), Err(Error::Damaged { .. })));
}
