//! `everbyte-bench CASE.. [--quick] [--json]`: runs bench cases. `cargo xtask bench` is the way to
//! it.

#![forbid(unsafe_code)]

use everbyte_bench::cases::{self, ALL, BenchCase};
use everbyte_bench::harness::{Bench, Plan};
use everbyte_bench::plot;
use everbyte_bench::report::Reporter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const HELP: &str = "\
everbyte-bench CASE.. [--quick] [--json] [--smoke] [--only TEXT] [--memory DIR] [--disk DIR]
everbyte-bench --plot DIR RESULTS..

  CASE      a case of --list, or `all`
  --quick   fewer keys and rounds: minutes become seconds
  --json    one line a metric, for programs
  --smoke   tiny: only whether everything runs
  --only    metrics whose name holds this text
  --memory  a folder on tmpfs, /dev/shm unless given
  --disk    a folder on a disk, the build folder unless given
  --list    the cases
  --plot    draws figures into a folder, of files that --json wrote
";

struct Words {
    cases: Vec<String>,
    quick: bool,
    json: bool,
    smoke: bool,
    only: String,
    memory: PathBuf,
    disk: PathBuf,
}

fn parse() -> Result<Option<Words>, String> {
    let disk = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.to_path_buf()));
    let disk = disk.unwrap_or_else(std::env::temp_dir);
    let mut words = Words {
        cases: vec![],
        quick: false,
        json: false,
        smoke: false,
        only: String::new(),
        memory: "/dev/shm".into(),
        disk,
    };
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        match word.as_str() {
            "--quick" => words.quick = true,
            "--json" => words.json = true,
            "--smoke" => words.smoke = true,
            "--only" => words.only = given.next().ok_or("--only needs a text")?,
            "--memory" => words.memory = given.next().ok_or("--memory needs a folder")?.into(),
            "--disk" => words.disk = given.next().ok_or("--disk needs a folder")?.into(),
            "--list" => {
                ALL.iter().for_each(|case| println!("{:<8} {}", case.name, case.about));
                return Ok(None);
            }
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(None);
            }
            flag if flag.starts_with('-') => return Err(format!("no option is called `{flag}`\n\n{HELP}")),
            case => words.cases.push(case.into()),
        }
    }
    if words.cases.is_empty() { Err(HELP.into()) } else { Ok(Some(words)) }
}

/// libpmem reads this while it is loaded, before `main`: the program starts itself again with it.
fn force_pmem() -> Result<(), String> {
    const FORCE: &str = "PMEM_IS_PMEM_FORCE";
    if std::env::var_os(FORCE).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Err(Command::new(program).args(std::env::args_os().skip(1)).env(FORCE, "1").exec().to_string())
}

fn run() -> Result<(), String> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let Some(result) = cases::hidden(&given) {
        return result.map_err(|error| error.to_string());
    }
    if let [flag, folder, results @ ..] = &given[..]
        && flag == "--plot"
    {
        return plot::run(Path::new(folder), results);
    }
    let Some(words) = parse()? else { return Ok(()) };
    force_pmem()?;
    let named = |name: &String| -> Result<Vec<&BenchCase>, String> {
        let found: Vec<&BenchCase> = ALL.iter().filter(|case| name == "all" || case.name == name).collect();
        if found.is_empty() { Err(format!("no case is called `{name}`; --list names them")) } else { Ok(found) }
    };
    let cases: Vec<&BenchCase> = words.cases.iter().map(named).collect::<Result<Vec<_>, _>>()?.concat();
    let (round, rounds) = match (words.smoke, words.quick) {
        (true, _) => (Duration::from_micros(200), 1),
        (_, true) => (Duration::from_millis(40), 5),
        _ => (Duration::from_millis(200), 11),
    };
    let Words { quick, json, smoke, only, memory, disk, .. } = words;
    let plan = Plan { round, rounds, quick, smoke, only, memory, disk };
    let mut reporter = Reporter::new(json);
    for case in cases {
        let mut bench = Bench::new(plan.clone(), case.name, &mut reporter);
        (case.run)(&mut bench).map_err(|error| format!("{}: {error}", case.name))?;
    }
    if reporter.reported == 0 { Err("nothing was measured".into()) } else { Ok(()) }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("everbyte-bench: {message}");
            ExitCode::FAILURE
        }
    }
}
