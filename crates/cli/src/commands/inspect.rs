//! `everbyte inspect heat`: what the ordered store writes, by address and over time.

use crate::args::{HeatArgs, HeatOrder, InspectCommand, InspectCommands};
use crate::failure::Failure;
use crate::output::Output;
use everbyte_cases::{HeatSettings, HeatWorkload, heat};
use serde_json::Value;

pub(crate) fn run(args: &InspectCommands, output: &Output) -> Result<(), Failure> {
    match &args.command {
        InspectCommand::Heat(args) => run_heat(args, output),
    }
}

fn run_heat(args: &HeatArgs, output: &Output) -> Result<(), Failure> {
    let workload = match args.workload {
        HeatOrder::Random => HeatWorkload::Random,
        HeatOrder::Ascending => HeatWorkload::Ascending,
        HeatOrder::Overwrite => HeatWorkload::Overwrite,
    };
    let HeatArgs { operations, columns, seed, .. } = *args;
    let heat = heat(&HeatSettings { workload, operations, columns, seed }).map_err(Failure::Words)?;
    if let Some(path) = &args.svg {
        std::fs::write(path, heat.svg()).map_err(|error| Failure::system("write", path, error))?;
    }
    output.say(heat.text(), serde_json::to_value(&heat).unwrap_or(Value::Null))
}
