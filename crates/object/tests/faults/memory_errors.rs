//! Memory errors under a typed pool: no transaction commits or answers over a page that is lost,
//! and other pools go on.

use crate::common::{Node, append, store, values};
use everbyte_media::museum;
use everbyte_object::{Error, Pool, pool};
use std::process::Command;

fn lost_page() -> Result<(), String> {
    pool!(Hurt);
    pool!(Whole);
    let store = store();
    let hurt = Hurt::create::<Node<u64, Hurt>>(&store, "hurt", |_| Node::new(0)).unwrap();
    let whole = Whole::create::<Node<u64, Whole>>(&store, "whole", |_| Node::new(0)).unwrap();
    for value in 1..300 {
        hurt.tx(|journal, node| append(node, value, journal)).unwrap();
    }
    whole.tx(|journal, node| append(node, 1, journal)).unwrap();
    let object = store.object("hurt").unwrap();
    // A page of nodes, and not the first of them: a list that ends early.
    let at = (object.prime().get()..object.backed().get())
        .step_by(4096)
        .find(|&page| (page..page + 4096).step_by(8).any(|word| store.media().load(word) == 290));
    let at = at.unwrap();
    let outcome = whole.tx(|_, node| {
        store.media().raise_memory_error(at);
        node.val + values(&hurt).iter().sum::<u64>()
    });
    let Err(error) = outcome else { return Err("a sum with zeros of a lost page was answered".into()) };
    assert!(matches!(error, Error::UnreadableElsewhere), "{error}");
    for outcome in
        [hurt.tx(|_, node| node.val), hurt.tx(|journal, node| node.next.borrow_mut(journal).is_some() as u64)]
    {
        let Err(error) = outcome else { return Err("the hurt pool has answered".into()) };
        let text = error.to_string();
        assert!(text.contains("object `hurt` is damaged at offset") && text.contains(&format!("{at:#x}")), "{text}");
    }
    whole.tx(|journal, node| append(node, 2, journal)).unwrap();
    assert_eq!(whole.tx(|_, node| values(node)).unwrap(), [1, 2]);
    Ok(())
}

#[test]
fn no_transaction_answers_over_a_lost_page_and_other_pools_go_on() {
    const ALONE: &str = "EVERBYTE_LOST_PAGE_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // A lost page concerns every transaction of the process: this test has one of its own.
        let test = "memory_errors::no_transaction_answers_over_a_lost_page_and_other_pools_go_on";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", test, "--nocapture"]).env(ALONE, "").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    lost_page().unwrap();
    for bug in ["object-answers-over-lost-page", "media-zeros-answered"] {
        println!("{bug}: {}", museum::with(bug, lost_page).expect_err("the seeded bug was not found"));
    }
}
