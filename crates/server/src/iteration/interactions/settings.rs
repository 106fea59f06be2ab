//! CONFIG REWRITE and CLIENT REPLY beside other commands.

use super::Turns;
use crate::Options;

/// The file gets the parameters that were changed and that it may have, each in the form of its
/// kind.
#[test]
fn a_rewritten_file_has_the_changed_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.toml");
    std::fs::write(&path, "# mine\nmaxclients = 5\n").unwrap();
    let mut turns = Turns::with(Options { settings: Some(path.clone()), ..Options::default() });
    let set = "CONFIG SET maxmemory 1mb maxmemory-policy ALLKEYS-LFU maxclients 7 timeout 9";
    assert_eq!(turns.ask(0, &[set, "CONFIG REWRITE"]), "+OK\r\n+OK\r\n");
    let expect = "maxmemory = 1048576\nmaxmemory-policy = \"allkeys-lfu\"\n# mine\nmaxclients = 7\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expect);
}

/// A command whose reply its client skips takes its element in silence.
#[test]
fn a_wait_whose_reply_is_skipped_ends_in_silence() {
    let mut turns = Turns::new();
    assert_eq!(turns.ask(0, &["CLIENT REPLY SKIP", "BLPOP q 0"]), "");
    let replies = turns.at(0, &[(1, &["RPUSH q a"])]);
    assert_eq!((&*replies[0], &*replies[1]), ("", ":1\r\n"));
    assert_eq!(turns.ask(0, &["LLEN q"]), ":0\r\n");
}
