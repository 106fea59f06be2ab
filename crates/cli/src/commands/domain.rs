//! `everbyte broker` and `everbyte domain`: stores whose rights the kernel enforces.

use crate::args::{BrokerArgs, DomainCommand, DomainCommands, Owner};
use crate::failure::Failure;
use crate::output::Output;
use crate::text;
use everbyte_broker::{About, Broker, Client, Error, Options};
use serde_json::json;

/// Serves until a signal stops the process.
pub(crate) fn serve(args: &BrokerArgs, output: &Output) -> Result<(), Failure> {
    let socket = args.socket.clone().unwrap_or_else(|| args.dir.with_extension("socket"));
    let broker = Broker::start(&args.dir, &socket, Options { quota: args.quota })?;
    let (dir, at) = (args.dir.display().to_string(), socket.display().to_string());
    output.say(
        format!("serving the domains of {dir} at {at}; try `everbyte domain ls --socket {at}`"),
        json!({ "dir": dir, "socket": at, "quota": args.quota }),
    )?;
    output.finish()?;
    broker.wait();
    Err(Failure::System(format!("{at}: the socket stopped accepting connections; start the broker again")))
}

pub(crate) fn run(args: &DomainCommands, output: &Output) -> Result<(), Failure> {
    let itself = std::env::current_exe()
        .map_err(|error| Failure::System(format!("the path of this program's file: {error}")))?;
    let client = Client::on_demand(&args.socket, &itself);
    let done = |what: &str, name: &str| output.say(format!("{what} {name}"), json!({ "done": what, "domain": name }));
    match &args.command {
        DomainCommand::Ls { prefix } => client.list(prefix)?.iter().try_for_each(|about| list(about, output)),
        DomainCommand::Create { name, mode, max } => {
            client.create(name, *mode, *max)?;
            done("created", name)
        }
        DomainCommand::Rm { name } => {
            client.remove(name)?;
            done("removed", name)
        }
        DomainCommand::Chmod { mode, name } => {
            client.chmod(name, *mode)?;
            done("changed", name)
        }
        DomainCommand::Chown { owner: Owner { user, group }, name } => {
            let access = client.about(name)?.access;
            client.chown(name, user.unwrap_or(access.owner), group.unwrap_or(access.group))?;
            done("changed", name)
        }
    }
}

fn list(about: &About, output: &Output) -> Result<(), Failure> {
    let About { name, access, base, max } = about;
    let mode = format!("{:03o}", access.mode);
    output.say(
        format!("{mode} {:>6} {:>6} {:>10} {base:#x} {name}", access.owner, access.group, text::bytes(*max)),
        json!({ "domain": name, "mode": mode, "owner": access.owner, "group": access.group, "max": max, "base": base }),
    )
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Store(error) => Failure::from(error),
            Error::Media(error) => Failure::from(error),
            Error::Refused { .. } => Failure::No(error.to_string()),
            other => Failure::System(other.to_string()),
        }
    }
}
