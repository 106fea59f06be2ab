//! A program adds an engine, and nothing in Everbyte must change for it.

#[path = "../../examples/own_engine.rs"]
mod example;

#[test]
fn an_engine_of_a_program_is_checked_and_merged_like_the_others() {
    example::main().unwrap();
}
