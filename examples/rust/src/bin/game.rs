//! A game without a save file: its world lies in a pool, and each tick is one transaction.
//!
//! `game STORE TICKS` plays so many ticks; `game STORE --until TICK` plays up to that one. A run
//! that is killed goes on from its last whole tick, to the same world.

#![forbid(unsafe_code)]

use everbyte::{PRefCell, Pool, pool};
use everbyte_examples::world::World;
use everbyte_examples::{Outcome, arguments, store};

pool!(Game);

fn main() -> Outcome {
    let usage = "game STORE TICKS | --until TICK";
    let (path, words) = arguments(usage)?;
    let store = store(path)?;
    let world =
        Game::open_or_create::<PRefCell<World<Game>, Game>>(&store, "world", |j| PRefCell::new(World::new(7, j)))?;
    let begin = world.borrow().tick();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let end = match words[..] {
        ["--until", tick] => tick.parse()?,
        [ticks] => begin + ticks.parse::<u64>()?,
        _ => return Err(format!("usage: {usage}").into()),
    };
    for _ in begin..end {
        world.tx(|j, world| world.borrow_mut(j).advance(j))?;
    }
    let checksum = world.tx(|j, world| world.borrow().checksum(j))?;
    let all = world.borrow();
    println!("tick {}: {} entities, checksum {checksum:016x}", all.tick(), all.population());
    Ok(())
}
