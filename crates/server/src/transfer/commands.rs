//! Commands executed as a server executes them, one client's, without replies.
//!
//! A source removes an expired key by DEL, and gives deadlines as times since 1970, which may have
//! passed, so no key expires while commands are executed.

use super::ImportFault;
use super::target::Target;
use crate::clients::{Client, Clients};
use crate::command::{Call, CommandTable, Flags};
use crate::resp::parse::Args;
use crate::resp::reply::Replies;
use crate::server_state::ServerState;
use everbyte_media::seeded;
use std::net::SocketAddr;

/// Commands that change no keys.
const PASSED_OVER: [&[u8]; 5] = [b"ping", b"publish", b"spublish", b"replconf", b"script"];

/// See the head of this file.
pub(super) struct Commands {
    shared: ServerState,
    others: Clients,
    client: Client,
    out: Replies,
    /// The place of the MULTI whose EXEC has not come yet.
    pub transaction: Option<u64>,
}

impl Commands {
    pub(super) fn new(shared: ServerState, address: SocketAddr) -> Commands {
        let client = Client::new(1, address, address, 0, shared.now);
        Commands { shared, others: Clients::default(), client, out: Replies::default(), transaction: None }
    }

    /// Milliseconds since 1970.
    pub(super) fn clock(&self) -> u64 {
        self.shared.clock()
    }

    /// The database of the commands to come.
    pub(super) fn select(&mut self, database: u8) {
        self.client.database = database;
    }

    /// The database that the commands have selected.
    pub(super) fn database(&self) -> u8 {
        self.client.database
    }

    /// The source begins anew: no database was selected, no transaction is open.
    pub(super) fn reset(&mut self) {
        self.client.database = 0;
        self.transaction = None;
    }

    /// Executes a command. `name` and `offset` are its place.
    pub(super) fn execute(
        &mut self,
        target: &mut Target<'_, '_>,
        args: Args<'_>,
        name: &str,
        offset: u64,
    ) -> Result<(), ImportFault> {
        let word = args.get(0).to_ascii_lowercase();
        match &*word {
            b"multi" if self.transaction.is_none() => {
                target.commit()?;
                self.transaction = Some(offset);
                return Ok(());
            }
            b"exec" if self.transaction.is_some() => {
                self.transaction = None;
                return target.note(0, false);
            }
            word if PASSED_OVER.contains(&word) => return Ok(()),
            _ => {}
        }
        let fault = |reply: &[u8]| ImportFault::Refused {
            name: name.to_string(),
            offset,
            command: args.get(0).to_vec(),
            reply: reply.to_vec(),
        };
        let row = CommandTable::get().look_up(&args).map_err(|fail| fault(&fail.reply()))?;
        let command = CommandTable::get().rows[row];
        let writes = command.flags.contains(Flags::WRITE) && !command.flags.contains(Flags::BLOCKING);
        if !writes && !["select", "pfcount"].contains(&command.name) {
            return Err(fault(b"it changes no keys"));
        }
        target.keys.advance(self.shared.clock());
        target.keys.begin_command(true);
        target.keys.select(self.client.database);
        let position = self.out.position();
        let outcome = (command.handler)(&mut Call {
            args,
            out: &mut self.out,
            client: &mut self.client,
            others: &self.others,
            keys: &mut target.keys,
            shared: &mut self.shared,
        });
        self.out.cut(position);
        if let Err(fail) = outcome {
            return Err(fault(&fail.reply()));
        }
        target.done.commands += 1;
        let size = args.from(0).map(<[u8]>::len).sum();
        if seeded("server-import-exec-split") && self.transaction.is_some() {
            target.commit()?;
        }
        target.note(size, self.transaction.is_some())
    }
}
