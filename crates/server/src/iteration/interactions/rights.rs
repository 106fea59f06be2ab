//! The keys that a request needs rights on are those that its command uses, whatever its words are
//! called (ACL-1).

use super::Turns;
use crate::options::Options;

/// The replies to a user with all commands and these patterns of keys, to one line each.
fn replies(patterns: &str, lines: &[&str]) -> Vec<String> {
    let mut turns = Turns::new();
    turns.ask(1, &[&format!("ACL SETUSER u on nopass {patterns} +@all"), "RPUSH own 1 2", "GEOADD g 1 1 m"]);
    turns.ask(1, &["XADD sec 1-1 f v", "XGROUP CREATE sec streams 0", "XADD str 1-1 f v", "XGROUP CREATE str g 0"]);
    turns.ask(0, &["AUTH u p"]);
    lines.iter().map(|line| turns.ask(0, &[line])).collect()
}

fn all_refused(patterns: &str, lines: &[&str]) {
    for (line, reply) in lines.iter().zip(replies(patterns, lines)) {
        assert!(reply.starts_with("-NOPERM"), "{line}: {reply}");
    }
}

#[test]
fn a_pattern_of_sort_called_store_hides_no_target() {
    all_refused(
        "~own* ~a*",
        &[
            "SORT own STORE secret BY store asc",
            "SORT own STORE secret GET STORE asc",
            "SORT own STORE secret BY by BY Store asc",
            "SORT own STORE store asc",
            "SORT own STORE aim STORE secret",
        ],
    );
    let permitted = replies("~own* ~a*", &["SORT own BY store STORE aim", "SORT own BY get STORE aim BY limit asc"]);
    assert_eq!(permitted, [":2\r\n", ":2\r\n"]);
}

#[test]
fn a_target_called_store_needs_rights_on_it() {
    all_refused(
        "~g ~a*",
        &[
            "GEORADIUS g 1 1 1 m STORE store asc",
            "GEORADIUS g 1 1 1 m STOREDIST StoreDist asc",
            "GEORADIUSBYMEMBER g m 1 m STORE store asc",
            "GEORADIUSBYMEMBER g m 1 m STORE aim STORE secret",
        ],
    );
    assert_eq!(replies("~g ~a*", &["GEORADIUS g 1 1 1 m STORE aim asc"]), [":1\r\n"]);
}

#[test]
fn a_group_called_streams_hides_no_stream() {
    all_refused(
        "~str*",
        &[
            "XREADGROUP NOACK GROUP g streams streams sec >",
            "XREADGROUP NOACK GROUP streams streams STREAMS sec >",
            "XREADGROUP COUNT 1 GROUP streams c STREAMS sec >",
        ],
    );
    let reply = replies("~str*", &["XREADGROUP NOACK GROUP g streams streams str >"]).remove(0);
    assert!(reply.starts_with("*1\r\n*2\r\n$3\r\nstr\r\n"), "{reply}");
}

/// ACL LOAD takes rights from `default`, whose clients stay: those end that listen to a channel
/// which the new file forbids.
#[test]
fn a_loaded_file_ends_listeners_of_the_default_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    let mut turns = Turns::with(Options { acl_file: Some(path.clone()), ..Options::default() });
    turns.ask(1, &["SUBSCRIBE a"]);
    turns.ask(2, &["SUBSCRIBE a b"]);
    for (channels, left) in [("&*", 3), ("resetchannels &a", 2)] {
        std::fs::write(&path, format!("user default on nopass ~* {channels} +@all\n")).unwrap();
        assert_eq!(turns.ask(0, &["ACL LOAD"]), "+OK\r\n");
        assert_eq!(turns.server.iterations.clients.count(), left, "{channels}");
    }
    assert!(turns.at(0, &[(0, &["PUBLISH a m"])])[1].contains("message"));
}

/// Rules of one selector add up, a command that is taken away is so with all its first words, and a
/// refusal is that of the selector that got furthest.
#[test]
fn rules_add_up_and_the_furthest_selector_tells() {
    let mut turns = Turns::new();
    let rules = "ACL SETUSER u on nopass %R~k %W~k +get +set +select|1 -select +select|0";
    assert_eq!(turns.ask(0, &[rules, "ACL SETUSER v on nopass +get ~a (+set ~b)"]), "+OK\r\n+OK\r\n");
    let found = turns.ask(1, &["AUTH u p", "SET k 1", "GET k", "SELECT 1", "SELECT 0"]);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines[..4], ["+OK", "+OK", "$1", "1"], "{found}");
    assert!(lines[4].starts_with("-NOPERM") && lines[5] == "+OK", "{found}");
    let found = turns.ask(2, &["AUTH v p", "GET c", "SET c 1", "DEL c"]);
    let lines: Vec<&str> = found.lines().collect();
    assert!(lines[1].contains("keys") && lines[2].contains("keys"), "{found}");
    assert!(lines[3].contains("'del' command"), "{found}");
}
