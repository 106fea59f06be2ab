//! The commands that a script gives.
//!
//! A script is one command of the event loop, as EXEC is: its commands are executed under one
//! batch, none of another client's between them. A command that is refused leaves what the ones
//! before it did. If the store fails, or the script has to end, all of the script is taken back.

use super::replication::replica_admits;
use super::transaction::{changes_or_spreads, execute_part};
use super::{Call, CommandTable, Fail, Flags, OUT_OF_MEMORY, acl};
use crate::lua::{Answer, Host};
use crate::resp::parse::Args;
use crate::resp::reply::{Protocol, Replies};
use everbyte_media::seeded;

const UNKNOWN: Fail = Fail::text("ERR Unknown Redis command called from script");
const ARITY: Fail = Fail::text("ERR Wrong number of args calling Redis command from script");
const NOT_ALLOWED: Fail = Fail::text("ERR This Redis command is not allowed from script");
const READ_ONLY: Fail = Fail::text("ERR Write commands are not allowed from read-only scripts.");

/// The row of a command.
fn find(args: &Args<'_>) -> Option<usize> {
    let table = CommandTable::get();
    let row = table.find(args.get(0))?;
    match table.rows[row].subcommands.is_empty() || args.len() == 1 {
        true => Some(row),
        false => table.find(&[args.get(0), b"|", args.get(1)].concat()),
    }
}

fn has_arity(row: usize, args: &Args<'_>) -> bool {
    let (count, arity) = (args.len() as i64, i64::from(CommandTable::get().rows[row].arity));
    if arity > 0 { count == arity } else { count >= -arity }
}

/// A command's call that runs a script.
pub(super) struct ScriptHost<'h, 'c, 'k> {
    /// The call.
    pub call: &'h mut Call<'c, 'k>,
    /// Whether the script may only read.
    pub read_only: bool,
    /// Whether it has changed anything.
    pub changed: bool,
    /// Whether it may go on without room, as it says so or has begun to write.
    pub needs_no_room: bool,
    /// The reason why the script may not go on.
    pub fatal: Option<Fail>,
}

impl ScriptHost<'_, '_, '_> {
    fn execute(&mut self, args: Args<'_>, out: &mut Replies) -> Result<(), Fail> {
        let row = find(&args).ok_or(UNKNOWN)?;
        if !has_arity(row, &args) {
            return Err(ARITY);
        }
        let command = CommandTable::get().rows[row];
        if command.flags.contains(Flags::NOSCRIPT) {
            return Err(NOT_ALLOWED);
        }
        acl::permitted_to_script(self.call.client, self.call.shared, row, &args)?;
        if self.read_only && changes_or_spreads(command) {
            return Err(READ_ONLY);
        }
        replica_admits(self.call.client, self.call.shared, command)?;
        if command.flags.contains(Flags::DENYOOM) && self.call.shared.data_bound.out_of_memory && !self.needs_no_room {
            return Err(OUT_OF_MEMORY);
        }
        self.needs_no_room |= command.flags.contains(Flags::WRITE);
        if seeded("server-script-split") {
            self.call.keys.commit_apart();
        }
        let mut part = Call {
            args,
            out,
            client: &mut *self.call.client,
            others: self.call.others,
            keys: &mut *self.call.keys,
            shared: &mut *self.call.shared,
        };
        let outcome = execute_part(&mut part, row);
        // Messages wait for the end of the script, in memory; its own client has each once for
        // every channel and pattern.
        let held = self.call.shared.outbox.command_size() + self.call.shared.own_pushes.pending();
        if held > self.call.shared.options.script_memory_max {
            self.fatal = Some(Fail::text("ERR the script has published too much; what it did is taken back"));
        }
        let changed = self.call.keys.part_changed();
        self.changed |= changed;
        match outcome {
            Err(fail) if changed || matches!(fail, Fail::Store(_)) => {
                self.fatal = Some(fail);
                Ok(())
            }
            outcome => outcome,
        }
    }
}

impl Host for ScriptHost<'_, '_, '_> {
    fn command(&mut self, args: Args<'_>, protocol: Protocol) -> Answer {
        let mut out = Replies::default();
        out.protocol = protocol;
        let position = out.position();
        if let Err(fail) = self.execute(args, &mut out) {
            out.cut(position);
            out.error(&fail.reply());
        }
        match self.fatal {
            Some(_) => Answer::End,
            None => Answer::Reply(out.into_bytes()),
        }
    }

    fn permits(&mut self, args: Args<'_>) -> Option<bool> {
        let row = find(&args)?;
        // Without its arguments a command is judged by its name.
        let args = has_arity(row, &args).then_some(&args);
        Some(acl::permits(self.call.client, self.call.shared, row, args))
    }

    fn size_max(&self) -> usize {
        self.call.shared.options.input_size_max
    }
}
