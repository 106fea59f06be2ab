//! Users by hand: rules, texts, the log, files.

use super::*;

fn user(rules: &str) -> User {
    let mut user = User::new(b"u");
    access_rules(rules).iter().for_each(|rule| user.apply(rule).unwrap());
    user
}

fn line(user: &User) -> String {
    String::from_utf8(user.line()).unwrap()
}

/// The text of a user makes the same user again.
#[test]
fn a_description_makes_its_user_again() {
    for rules in [
        "on nopass ~* &* +@all",
        "off >p >q ~a* %R~b* %W~c* &x +get +@set -sadd +config|get",
        "+@all -@write -@dangerous +set +select|0 +select|1",
        "+@read -get (+@all ~z*)",
    ] {
        let mut one = User::new(b"u");
        access_rules(rules).iter().for_each(|rule| one.apply(rule).unwrap());
        let text = line(&one);
        let mut other = User::new(b"u");
        let words = text.strip_prefix("user u ").unwrap();
        access_rules(words).iter().for_each(|rule| other.apply(rule).unwrap());
        assert_eq!(line(&other), text, "{rules}");
        for row in 0..crate::command::CommandTable::get().rows.len() {
            assert_eq!(one.selectors[0].has(row), other.selectors[0].has(row), "{rules} {row}");
        }
    }
}

fn access_rules(text: &str) -> Vec<Vec<u8>> {
    merged(text.split(' ').map(str::as_bytes)).unwrap()
}

#[test]
fn texts_are_those_of_redis() {
    assert_eq!(
        line(&user("on >p +get ~a* %R~b* %W~c")),
        line(&user("%W~c on >p ~a* %R~b* +get")).replace("%W~c ~a* %R~b*", "~a* %R~b* %W~c")
    );
    assert_eq!(
        line(&user("on >p ~a &b +get")),
        "user u on #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 ~a resetchannels &b -@all +get"
    );
    assert_eq!(line(&User::permitted(DEFAULT)), "user default on nopass ~* &* +@all");
}

#[test]
fn only_a_password_of_an_enabled_user_admits() {
    let mut one = user("on >p >q");
    assert!(one.admits(b"p") && one.admits(b"q") && !one.admits(b"") && !one.admits(b"pq"));
    one.apply(b"<p").unwrap();
    assert!(!one.admits(b"p") && one.admits(b"q"));
    one.apply(b"off").unwrap();
    assert!(!one.admits(b"q"));
    assert!(!user("on").admits(b"") && user("on nopass").admits(b"x"));
}

/// The id of a deleted user finds no user, also when the name comes again.
#[test]
fn ids_are_not_given_twice() {
    let mut users = Users::new(None);
    let first = users.put(user("on nopass +@all"));
    assert_eq!(users.remove(b"u"), Some(first));
    let second = users.put(user("on"));
    assert!(users.get(first).is_none() && second != first);
    assert_eq!(users.remove(DEFAULT), None);
    assert_eq!(users.replace(Vec::new()), [second]);
    assert_eq!(users.iter().len(), 1);
}

#[test]
fn the_log_joins_equal_refusals_and_is_bounded() {
    let mut log = Log::default();
    let entry = |object: &str, time| LogEntry {
        count: 1,
        reason: Reason::Key,
        context: Context::TopLevel,
        object: object.into(),
        user: b"u".to_vec(),
        time,
        client: String::new(),
    };
    for time in [0, 1, 60_000, 130_000] {
        log.add(entry("k", time));
    }
    assert_eq!(log.iter().map(|entry| entry.count).collect::<Vec<_>>(), [1, 3]);
    for number in 0..1000 {
        log.add(entry(&format!("{number}"), 0));
    }
    assert_eq!(log.iter().len(), 128);
    let long = "\u{e9}n".repeat(1 << 20);
    log.add(LogEntry { user: long.clone().into_bytes(), client: long.clone(), ..entry(&long, 0) });
    let newest = log.iter().next().unwrap();
    assert!(
        [newest.object.capacity(), newest.user.capacity(), newest.client.capacity()].iter().all(|size| *size < 5000)
    );
    assert!(newest.client.len() > 4000 && long.starts_with(&newest.client));
    log.clear();
    assert_eq!(log.iter().len(), 0);
}

#[test]
fn files_are_written_and_read_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    let mut users = Users::new(None);
    users.put(user("on >p ~a* +get (+set ~b)"));
    users.put(User::new(b"other"));
    save(&path, users.iter()).unwrap();
    let read = load(&path).unwrap();
    assert_eq!(read.iter().map(line).collect::<Vec<_>>(), users.iter().map(line).collect::<Vec<_>>());
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    for (text, error) in [
        ("user a on\nuser a off", "Duplicate user 'a' found on line 2"),
        ("\n# no", ":2 should start with user keyword"),
        ("user", "should start with user keyword"),
        ("user a +nosuch >secret", "Error in applying operation '+nosuch'"),
        ("user a #secret", ":1: The password hash must be"),
        ("user a (+get", "Unmatched parenthesis"),
    ] {
        std::fs::write(&path, text).unwrap();
        let found = load(&path).err().unwrap();
        assert!(found.contains(error) && !found.contains("secret"), "{found}");
    }
    assert!(load(&folder.path().join("none")).err().unwrap().contains("No such file or directory"));
}
