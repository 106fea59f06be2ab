//! `suite-serve STORE ADDRESS`: opens or creates a store on a plain disk and serves it; the test's server process.

#![forbid(unsafe_code)]

use std::path::Path;

use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Options};
use everbyte_server::Server;
use everbyte_store::{CreateOptions, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, path, address] = &words[..] else { return Err("usage: suite-serve STORE ADDRESS".into()) };
    let (path, media) = (Path::new(path), Options { backend: BackendChoice::File, ..Options::default() });
    let store = match path.exists() {
        true => Store::open(path, &media)?,
        false => Store::create(path, &CreateOptions { media, ..CreateOptions::default() })?,
    };
    let kv = Kv::open_or_create(&store, "kv")?;
    let options = everbyte_server::Options { address: address.clone(), signals: true, ..Default::default() };
    let server = Server::bind(kv, options)?;
    println!("listening on {}", server.address());
    server.run()?;
    Ok(store.close()?)
}
