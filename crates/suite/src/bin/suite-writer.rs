//! `suite-writer`: a writer to be killed at any moment, and the comparison afterwards.
//!
//!   suite-writer write STORE --seed S [--backend B] [--batches N]
//!       prints `ACK n` once batch n is settled; continues where the store left off; ends after N
//!       batches, or never
//!   suite-writer verify STORE --seed S --acked N [--backend B]
//!       the store holds at least N batches, is exactly the model after as many as it says, and
//!       checks clean
//!   suite-writer probe FOLDER
//!       prints the backend that FOLDER gives

#![forbid(unsafe_code)]

use everbyte_suite::acked::{Setup, backend, probe, verify, write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("FAILED {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), String> {
    let [word, path, flags @ ..] = words else { return Err("write, verify or probe, and a path".into()) };
    let mut setup = Setup::new(path);
    let (mut acked, mut batches) = (0, u64::MAX);
    for pair in flags.chunks(2) {
        let [flag, value] = pair else { return Err(format!("{}: lacks its value", pair[0])) };
        let number = || value.parse::<u64>().map_err(|error| format!("{flag} {value}: {error}"));
        match flag.as_str() {
            "--seed" => setup.seed = number()?,
            "--acked" => acked = number()?,
            "--batches" => batches = number()?,
            "--backend" => setup.backend = backend(value)?,
            other => return Err(format!("{other}: unknown")),
        }
    }
    match word.as_str() {
        "write" => write(&setup, batches, |n| println!("ACK {n}")),
        "verify" => verify(&setup, acked).map(|count| println!("VERIFIED {count}")),
        "probe" => probe(&setup).map(|name| println!("BACKEND {name}")),
        other => Err(format!("{other}: neither write, verify nor probe")),
    }
}
