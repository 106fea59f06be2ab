//! The name space across two crashes: a second program runs on the image that recovery left of the
//! first, and dies too.

use crate::common::{after, record, record_flushes};
use everbyte_media::{Media, museum::with};
use everbyte_names::layout::{HEAD_MAGIC, head, of_slab_word};
use everbyte_store::{Error, FormatOptions, Object, ObjectOptions, Store};

const MAX: u64 = 64 << 20;

fn make(store: &Store, name: &str) {
    let options = ObjectOptions { span: Some(64 << 10), ..ObjectOptions::default() };
    drop(store.create_small_object(name, options, |_| Ok::<(), Error>(())).unwrap());
}

/// The names of a store that is one name short of a burst.
fn settled() -> Vec<String> {
    let below_a = "0123456789abcdef".chars().map(|last| format!("a{last}"));
    below_a.chain(["b0".to_owned()]).collect()
}

fn nearly_full() -> Vec<u8> {
    let blank = vec![0; 1 << 20];
    let stores = record(MAX, &blank, |media| {
        let store = Store::format(media, &FormatOptions { identity: Some([7; 16]), log_len: 0 }).unwrap();
        store.index_names().unwrap();
        settled().iter().for_each(|name| make(&store, name));
        assert_eq!(store.check(), []);
    });
    after(&blank, &stores)
}

/// The number of words of the intent list that are not zero.
fn left_in_list(image: &[u8]) -> usize {
    let magic = |page: &&[u8]| page[head::AT as usize..].starts_with(&HEAD_MAGIC);
    let prime = image.chunks(4096).find(magic).expect("the store has a name space");
    prime[head::INTENT as usize..head::PENDING as usize].chunks(8).filter(|word| **word != [0; 8]).count()
}

/// The list says what a change of the trie's form makes and gives back. A process dies at each
/// store of a burst, the next one recovers, changes the form elsewhere, and dies at some of its
/// stores.
#[test]
fn a_second_crash_does_not_take_the_list_of_the_first_for_its_own() {
    let half_emptied = two_crashes().unwrap();
    assert!(half_emptied > 10, "the list held something in {half_emptied} images of the first crash");
}

#[test]
fn a_list_that_is_emptied_up_to_its_first_zero_is_noticed() {
    let found = with("names-doubt-half-emptied", two_crashes).unwrap_err();
    assert!(found.contains("list of a change of form is not empty"), "{found}");
}

/// The number of images of the first crash whose list held something.
fn two_crashes() -> Result<usize, String> {
    let image = nearly_full();
    let first = record(MAX, &image, |media| make(&Store::attach(media).unwrap(), "ag"));
    let mut half_emptied = 0;
    for cut in 0..=first.len() {
        let image = after(&image, &first[..cut]);
        let mut found = Vec::new();
        let second = record(MAX, &image, |media| {
            let store = Store::attach(media).unwrap();
            found = store.check();
            make(&store, "c0");
        });
        if let Some(found) = found.first() {
            return Err(format!("first crash behind store {cut}: {found}"));
        }
        // The second crash matters if the list holds something; of other images one in 32 is tried.
        let listed = left_in_list(&image) > 0;
        half_emptied += usize::from(listed);
        let step = if listed { 8 } else { 32 };
        for end in (cut % step..=second.len()).step_by(step) {
            let crash = format!("crashes behind stores {cut} and {end}");
            let (image, mut result) = (after(&image, &second[..end]), Ok(()));
            record(MAX, &image, |media| result = recovered(media, &crash));
            result?;
        }
    }
    Ok(half_emptied)
}

/// Nothing is lost, and what is made from now on takes nothing that is in use.
fn recovered(media: Media, crash: &str) -> Result<(), String> {
    let store = Store::attach(media).map_err(|error| format!("{crash}: {error}"))?;
    let sound = |when: &str| match store.check().first() {
        Some(found) => Err(format!("{crash}{when}: {found}")),
        None => Ok(()),
    };
    sound("")?;
    (0..3).for_each(|number| make(&store, &format!("{}{number}", char::from(b'd' + number))));
    let lost = settled().into_iter().find(|name| !matches!(store.find_on_media(name), Ok(Some(_))));
    lost.map_or(Ok(()), |name| Err(format!("{crash}: `{name}` is lost")))?;
    sound(", after more names")
}

/// A store whose table of records is full.
fn beyond_the_table() -> Vec<u8> {
    let blank = vec![0; 1 << 20];
    let stores = record(MAX, &blank, |media| {
        let store = Store::format(media, &FormatOptions { identity: Some([7; 16]), log_len: 0 }).unwrap();
        (0..300).for_each(|number| make(&store, &format!("n{number}")));
    });
    after(&blank, &stores)
}

/// Recovery finds records outside the table by the list of pending changes alone. An object that is
/// being created there stays in it while its `init` grows it, so a crash at any store leaves the
/// object whole or absent.
#[test]
fn an_object_that_grows_while_it_is_created_is_recovered() {
    crash_while_one_grows().unwrap();
}

#[test]
fn a_growth_that_ends_the_change_around_it_is_noticed() {
    let found = with("store-pending-left-early", crash_while_one_grows).unwrap_err();
    assert!(found.contains("behind store"), "{found}");
}

fn crash_while_one_grows() -> Result<(), String> {
    let image = beyond_the_table();
    let stores = record(MAX, &image, |media| {
        let store = Store::attach(media).unwrap();
        let options = ObjectOptions { span: Some(1 << 20), ..ObjectOptions::default() };
        let grow = |object: &Object| object.grow(200_000).map(drop);
        drop(store.create_small_object("grown", options, grow).unwrap());
    });
    for cut in 0..=stores.len() {
        let (image, mut found) = (after(&image, &stores[..cut]), Ok(()));
        record(MAX, &image, |media| {
            let store = Store::attach(media).unwrap();
            let first = store.check().first().map(|found| format!("behind store {cut} of {}: {found}", stores.len()));
            found = first.map_or(Ok(()), Err);
        });
        found?;
    }
    Ok(())
}

/// The list of pending changes leads recovery to a record outside of the table whose object was
/// growing. Recovery leaves the list empty: each slot that it kept would be one change less.
#[test]
fn an_object_outside_of_the_table_that_grows_is_recovered() {
    let image = beyond_the_table();
    let made = record(MAX, &image, |media| {
        let options = ObjectOptions { span: Some(1 << 20), ..ObjectOptions::default() };
        let make = |_: &Object| Ok::<(), Error>(());
        drop(Store::attach(media).unwrap().create_object("grown", options, make).unwrap());
    });
    let image = after(&image, &made);
    let stores = record(MAX, &image, |media| {
        let store = Store::attach(media).unwrap();
        store.object("grown").unwrap().grow(200_000).unwrap();
    });
    let mut taken_back = 0;
    for cut in 0..=stores.len() {
        let (image, mut found) = (after(&image, &stores[..cut]), (vec![], vec![]));
        let recovered = record(MAX, &image, |media| {
            let store = Store::attach(media).unwrap();
            found = (store.check(), store.recovery().growths.clone());
        });
        assert_eq!(found.0, [], "behind store {cut} of {}", stores.len());
        assert!(pending(&after(&image, &recovered)).is_empty(), "behind store {cut} of {}", stores.len());
        taken_back += found.1.len();
    }
    assert!(taken_back > 1);
}

/// The words of the list of pending changes that are not zero.
fn pending(image: &[u8]) -> Vec<&[u8]> {
    let magic = |page: &&[u8]| page[head::AT as usize..].starts_with(&HEAD_MAGIC);
    let prime = image.chunks(4096).find(magic).expect("the store has a name space");
    let list = &prime[head::PENDING as usize..][..head::PENDING_WORDS as usize * 8];
    list.chunks(8).filter(|word| **word != [0; 8]).collect()
}

/// `check` says that a list is left over: recovery always empties it.
#[test]
fn check_reports_a_list_that_is_not_empty() {
    let image = nearly_full();
    let at = image.chunks(4096).position(|page| page[head::AT as usize..].starts_with(&HEAD_MAGIC)).unwrap() * 4096;
    record(MAX, &image, |media| {
        let store = Store::attach(media.clone()).unwrap();
        media.store(at as u64 + head::INTENT + 40, 1);
        let findings: Vec<String> = store.check().iter().map(ToString::to_string).collect();
        assert!(findings.len() == 1 && findings[0].contains("change of form is not empty"), "{findings:?}");
    });
}

/// STORE-8: a process died between the division of a cluster of blocks and its flush. The opening
/// flushes it, though it makes no name: a later one, after a close in good order, would not.
#[test]
fn the_division_that_a_dead_process_has_left_is_flushed_by_the_opening() {
    let image = beyond_the_table();
    let stores = record(MAX, &image, |media| {
        let store = Store::attach(media).unwrap();
        (0..300).for_each(|number| make(&store, &format!("m{number}")));
    });
    let is_division = |(at, bytes): &(u64, Vec<u8>)| {
        let word = bytes.as_slice().try_into().map(u64::from_le_bytes);
        at % 4096 == 0 && word.is_ok_and(|word| of_slab_word(word).is_some())
    };
    let divided = stores.iter().position(is_division).expect("300 records need another cluster");
    let at = stores[divided].0;
    let image = after(&image, &stores[..=divided]);
    let flushes = record_flushes(MAX, &image, |media| Store::attach(media).unwrap().close().unwrap());
    assert!(flushes.iter().any(|&(from, len)| (from..from + len).contains(&at)), "{at:#x} of {flushes:x?}");
}
