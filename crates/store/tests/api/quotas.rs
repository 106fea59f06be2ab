//! The clusters that a user's objects may have together, for any number of threads that ask.

use everbyte_media::{Media, Options};
use everbyte_store::{Access, CLUSTER, Caller, Error, FormatOptions, ObjectOptions, Store};
use rustix::process::Uid;

const USER: u32 = 1000;

fn store() -> Store {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

fn make(store: &Store, name: &str, clusters: u64) -> Result<(), Error> {
    let options = ObjectOptions { span: Some(1 << 20), ..ObjectOptions::default() };
    store.create_object(name, options, |object| object.grow((clusters - 1) * CLUSTER).map(drop)).map(drop)
}

/// Runs `body` as a user other than root.
fn as_user<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let user = Uid::from_raw(USER);
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            body()
        });
        thread.join().unwrap()
    })
}

fn clusters(store: &Store) -> u64 {
    store.info().backed / CLUSTER
}

#[test]
fn no_object_is_made_beyond_its_users_quota() {
    let store = store();
    store.set_user_quota(Some(6)).unwrap();
    let refused = |name: &str, clusters: u64, has: u64| {
        let error = as_user(|| make(&store, name, clusters)).unwrap_err();
        assert!(matches!(error, Error::UserQuotaExceeded { quota: 6, has: found, .. } if found == has), "{error}");
        assert!(matches!(store.stat(name), Err(Error::NotFound { .. })), "nothing is left of it");
    };
    as_user(|| make(&store, "one", 4)).unwrap();
    refused("large", 3, 5); // its own first cluster counts, too
    as_user(|| make(&store, "two", 2)).unwrap();
    refused("empty", 1, 6);
    let small = || store.create_small_object("small", ObjectOptions::default(), |_| Ok::<(), Error>(())).map(drop);
    assert!(matches!(as_user(small), Err(Error::UserQuotaExceeded { .. })));
    as_user(|| store.remove_object("two")).unwrap();
    as_user(|| make(&store, "three", 2)).unwrap();
    assert_eq!((clusters(&store), store.check()), (6, vec![]));
}

/// An object counts from its first cluster on, before its name exists.
#[test]
fn an_object_that_is_being_made_counts_in_the_quota_of_its_user() {
    let store = store();
    store.set_user_quota(Some(3)).unwrap();
    let options = ObjectOptions { span: Some(1 << 20), ..ObjectOptions::default() };
    let made = as_user(|| {
        store.create_object("outer", options, |object| {
            object.grow(CLUSTER)?;
            let beside = make(&store, "beside", 2).unwrap_err();
            assert!(matches!(beside, Error::UserQuotaExceeded { has: 3, .. }), "{beside}");
            make(&store, "inner", 1)
        })
    });
    made.unwrap();
    assert_eq!((clusters(&store), store.check()), (3, vec![]));
}

#[test]
fn what_one_process_says_counts_in_the_others_that_share_the_store() {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    Store::format(media.clone(), &FormatOptions::default()).unwrap().close().unwrap();
    let [one, other] = [media.clone(), media].map(|media| Store::attach_shared(media).unwrap());
    one.set_user_quota(Some(2)).unwrap();
    as_user(|| make(&other, "a", 2)).unwrap();
    for store in [&one, &other] {
        assert!(matches!(as_user(|| make(store, "b", 1)), Err(Error::UserQuotaExceeded { has: 2, .. })));
    }
    other.set_user_quota(None).unwrap();
    as_user(|| make(&one, "b", 1)).unwrap();
    assert_eq!((one.check(), other.check()), (vec![], vec![]));
}

/// One cluster is left for four threads that ask for it again and again.
#[test]
fn threads_that_ask_at_once_get_no_more_than_their_user_may_have() {
    let store = store();
    let objects = ["a", "b", "c", "d"].map(|name| {
        make(&store, name, 2).unwrap();
        let owned = |access| Access { owner: USER, ..access };
        store.change_access(&Caller { user: 0, groups: vec![] }, name, owned).unwrap();
        let object = store.object(name).unwrap();
        object.release(object.prime() + CLUSTER..object.backed()).unwrap();
        object
    });
    store.set_user_quota(Some(5)).unwrap();
    let got: u64 = std::thread::scope(|scope| {
        let threads = objects.each_ref().map(|object| {
            scope.spawn(|| {
                let (last, mut got) = (object.prime() + CLUSTER..object.backed(), 0);
                for _ in 0..500 {
                    match object.back(last.clone()) {
                        Ok(()) => {
                            got += 1;
                            assert!(clusters(&store) <= 5);
                            object.release(last.clone()).unwrap();
                        }
                        Err(error) => assert!(matches!(error, Error::UserQuotaExceeded { .. }), "{error}"),
                    }
                }
                got
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(got > 0);
    assert_eq!((clusters(&store), store.check()), (4, vec![]));
}
