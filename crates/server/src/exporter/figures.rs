//! The figures of one moment: the event loop fills them in, a thread writes them as text.
//!
//! The loop copies numbers alone. Text, and what the system or the store are asked for, is the
//! thread's.

use super::families::FAMILIES;
use crate::clients::Clients;
use crate::command::{CommandTable, channel_figures};
use crate::replication::LinkState;
use crate::saves::SaveState;
use crate::server_state::ServerState;
use crate::times::RANGES;

/// Sums over connections.
pub(super) struct Sums {
    /// Bytes received and not executed.
    pub input: f64,
    /// Bytes of replies that wait.
    pub output: f64,
    /// Bytes of memory.
    pub memory: f64,
}

/// The state of the event loop from which figures are read.
pub(crate) struct Seen<'s> {
    pub(super) shared: &'s ServerState,
    pub(super) clients: &'s Clients,
    pub(super) sums: Sums,
    pub(super) channels: [usize; 3],
    pub(super) saves: SaveState,
    pub(super) pending: usize,
}

/// Of a command that was asked for.
pub(super) struct CommandFigures {
    pub name: &'static str,
    pub calls: u64,
    pub failed: u64,
    pub rejected: u64,
    /// Times by range.
    pub ranges: [u64; RANGES],
    /// The sum of these times in nanoseconds.
    pub nanoseconds: u64,
}

/// Of a replica of this server.
pub(super) struct ReplicaFigures {
    pub address: String,
    /// Seconds since it was heard last.
    pub lag: f64,
    pub settled: u64,
}

/// Of the link to the primary.
pub(super) struct LinkFigures {
    pub up: bool,
    /// Seconds since the primary was heard last; none if it never was.
    pub silence: Option<f64>,
    pub bytes: u64,
    /// Streams that began with a whole copy, and that went on.
    pub syncs: [u64; 2],
}

/// Keys of a database.
#[derive(Clone, Copy)]
pub(crate) struct DatabaseFigures {
    /// Its number.
    pub database: u8,
    /// Keys.
    pub keys: u64,
    /// Keys with a deadline.
    pub deadlines: u64,
}

/// See the head of this file.
pub(crate) struct Figures {
    /// By row of `FAMILIES`.
    pub(super) values: Vec<f64>,
    pub(super) commands: Vec<CommandFigures>,
    pub(super) errors: Vec<(String, u64)>,
    pub(super) denied: [u64; 4],
    pub(super) databases: Vec<DatabaseFigures>,
    pub(super) replicas: Vec<ReplicaFigures>,
    pub(super) link: Option<LinkFigures>,
    pub(super) append_fsync: &'static str,
    /// Whether clients of other machines are refused.
    pub(super) protected: bool,
}

fn commands(shared: &ServerState) -> Vec<CommandFigures> {
    let rows = CommandTable::get().rows.iter().zip(&shared.metrics.by_command);
    let used = rows.filter(|(_, counts)| counts.calls + counts.rejected > 0);
    used.map(|(command, counts)| CommandFigures {
        name: command.name,
        calls: counts.calls,
        failed: counts.failed,
        rejected: counts.rejected,
        ranges: counts.times.as_ref().map_or([0; RANGES], |times| times.ranges()),
        nanoseconds: counts.times.as_ref().map_or(0, |times| times.total()),
    })
    .collect()
}

fn link(shared: &ServerState) -> Option<LinkFigures> {
    shared.replication.primary.as_ref()?;
    let (state, figures) = shared.replication.link.as_ref().map(|link| link.figures()).unwrap_or_default();
    let silence = figures.received_at.map(|at| shared.now.saturating_duration_since(at).as_secs_f64());
    let (up, syncs) = (state == LinkState::Connected, [figures.whole, figures.partial]);
    Some(LinkFigures { up, silence, bytes: figures.bytes, syncs })
}

impl Figures {
    /// The figures now; the event loop brings the keys of databases, as of a settled version.
    pub(crate) fn gather(
        shared: &ServerState,
        clients: &Clients,
        pending: usize,
        databases: Vec<DatabaseFigures>,
    ) -> Figures {
        let mut sums = Sums { input: 0.0, output: 0.0, memory: 0.0 };
        for client in clients.iter() {
            sums.input += client.input_size() as f64;
            sums.output += client.out.pending() as f64;
            sums.memory += client.memory() as f64;
        }
        let seen =
            Seen { shared, clients, sums, channels: channel_figures(shared), saves: shared.saves.state(), pending };
        let replicas = shared.replication.replicas.iter().map(|replica| ReplicaFigures {
            address: format!("{}:{}", replica.host, replica.port),
            lag: shared.now.saturating_duration_since(replica.seen_at).as_secs_f64(),
            settled: replica.settled(),
        });
        Figures {
            values: FAMILIES.iter().map(|family| (family.read)(&seen)).collect(),
            commands: commands(shared),
            errors: shared.metrics.errors_by_word.iter().map(|(word, count)| (word.clone(), *count)).collect(),
            denied: shared.metrics.denied,
            databases,
            replicas: replicas.collect(),
            link: link(shared),
            append_fsync: shared.append_fsync(),
            protected: shared.users.is_open() && !shared.options.open,
        }
    }
}
