//! A cache for memcached's clients that restarts warm: `cache STORE [ADDRESS [MEGABYTES]]`.
//!
//! Killed and started again it has what it was told, and evicts what was stored longest ago. A
//! power cut may take the newest items along, and leaves those that it does not take whole.

#![forbid(unsafe_code)]

use everbyte::{Durability, Options};
use everbyte_examples::cache::{Cache, protocol};
use everbyte_examples::{Outcome, arguments, open_with};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

fn main() -> Outcome {
    let (path, words) = arguments("cache STORE [ADDRESS [MEGABYTES]]")?;
    let megabytes: u32 = words.get(1).map_or(Ok(64), |word| word.parse())?;
    let options = Options { durability: Durability::Process, ..Options::default() };
    let store = open_with(path, &options)?;
    let cache = Cache::open(&store, u64::from(megabytes) << 20)?;
    let listener = TcpListener::bind(words.first().map_or("127.0.0.1:11211", String::as_str))?;
    println!("{} items; listening on {}", cache.size().0, listener.local_addr()?);
    let cache = Arc::new(Mutex::new(cache));
    for connection in listener.incoming() {
        let (connection, cache) = (connection?, Arc::clone(&cache));
        std::thread::spawn(move || protocol::serve(&connection, &connection, &cache));
    }
    Ok(())
}
