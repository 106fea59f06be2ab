//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Between MULTI and EXEC commands are queued. EXEC executes all of them, one after the other, as
//! one command of the event loop: under one batch, with none of another client between them. A
//! command that is refused for a reason of its own (WRONGTYPE) is answered with its error among the
//! other replies, and the others stand, as in Redis. An error of the store takes all of EXEC back.

use super::{
    Call, Command, CommandTable, Fail, Flags, Outcome, acl, feed, note_uses, replication, tell_changes, tracking,
};
use crate::clients::Client;
use crate::resp::parse::Args;
use crate::server_state::ServerState;
use crate::transaction::Transaction;
use everbyte_media::seeded;

/// Commands that a transaction does not queue.
const IMMEDIATE: [&str; 8] = ["exec", "discard", "multi", "watch", "quit", "reset", "host:", "post"];

/// Scripts that may write.
const SCRIPTS: [&str; 3] = ["eval", "evalsha", "fcall"];

/// Ends a client's transaction and its watches.
pub(crate) fn end(client: &mut Client, shared: &mut ServerState) {
    client.transaction = None;
    unwatch_all(client, shared);
}

fn unwatch_all(client: &mut Client, shared: &mut ServerState) {
    if std::mem::take(&mut client.watches) {
        client.watches_memory = 0;
        shared.watches.forget(client.id);
    }
}

/// A request is refused before it is executed: a transaction that it was meant for is spoiled, and
/// EXEC itself ends it.
pub(crate) fn refused(client: &mut Client, shared: &mut ServerState, args: &Args<'_>, fail: Fail) -> Fail {
    if args.get(0).eq_ignore_ascii_case(b"exec") {
        end(client, shared);
        return discarded(&fail);
    }
    if let Some(transaction) = &mut client.transaction {
        transaction.spoiled = true;
    }
    fail
}

/// The reply of an EXEC of which nothing was done because of `fail`.
pub(crate) fn discarded(fail: &Fail) -> Fail {
    let text = fail.reply();
    let text = text.strip_prefix(b"ERR ").unwrap_or(&text);
    Fail::made([b"EXECABORT Transaction discarded because of: ", text].concat())
}

/// Queues a command if the client is in a transaction that takes it; whether it did.
pub(crate) fn queued(client: &mut Client, row: usize, command: &Command, args: &Args<'_>) -> Result<bool, Fail> {
    let Some(transaction) = &mut client.transaction else { return Ok(false) };
    if IMMEDIATE.contains(&command.name) {
        return Ok(false);
    }
    transaction.queue(row, args, changes(command));
    transaction.changes_keys |= command.flags.contains(Flags::WRITE);
    transaction.shows_keys |= replication::shows_keys(command);
    transaction.spreads |= spreads(command);
    transaction.needs_space |= command.flags.contains(Flags::DENYOOM);
    transaction.runs_scripts |= SCRIPTS.contains(&command.name);
    transaction.looks_around |= is_about_others(command);
    transaction.acts |= acts(command);
    transaction.may_be_taken_back |= !acts(command);
    Ok(true)
}

/// Whether a command may write. PFCOUNT keeps its result, although its flags say that it reads.
fn changes(command: &Command) -> bool {
    command.flags.contains(Flags::WRITE) || command.name == "pfcount" || SCRIPTS.contains(&command.name)
}

/// Whether a command is about to be queued, or refused for being given in a transaction.
pub(crate) fn queues(client: &Client, command: &Command) -> bool {
    client.transaction.is_some() && !["exec", "discard", "quit", "reset"].contains(&command.name)
}

/// Whether a command may need space, so that room is made before it; and whether it is refused if
/// there is none. A script goes on to its first command that needs some.
pub(crate) fn needs_room(client: &Client, command: &Command) -> (bool, bool) {
    match &client.transaction {
        Some(queued) if command.name == "exec" => (queued.needs_space || queued.runs_scripts, queued.needs_space),
        Some(_) => (false, false),
        None => {
            let needs_space = command.flags.contains(Flags::DENYOOM);
            (needs_space || SCRIPTS.contains(&command.name), needs_space)
        }
    }
}

/// The part of a command that stands if the batch of its iteration is taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stands {
    Nothing,
    /// Some commands of an EXEC.
    Some,
    All,
}

/// The part of a command of this client that has acted once it is executed, whatever becomes of its
/// iteration's batch: all of one for operators, about users, options, clients or replication, and
/// such commands of an EXEC that is executed at `now`. MONITOR and SNAPSHOT are taken back with the
/// batch.
pub(crate) fn acts_at_once(client: &Client, shared: &ServerState, command: &Command, now: u64) -> Stands {
    let (acts, may_be_taken_back) = match &client.transaction {
        Some(queued) if command.name == "exec" => {
            if queued.spoiled || shared.watches.is_doomed(client.id, now) {
                return Stands::Nothing;
            }
            (queued.acts, queued.may_be_taken_back)
        }
        _ => (acts(command), !acts(command)),
    };
    match (acts, may_be_taken_back) {
        (false, true) => Stands::Nothing,
        (true, true) => Stands::Some,
        (_, false) => Stands::All,
    }
}

fn acts(command: &Command) -> bool {
    let later = command.name == "monitor" || command.name.starts_with("snapshot|");
    command.flags.contains(Flags::ADMIN) && !later
}

/// Whether a command looks at other connections or at counters of all, or may change rules.
fn is_about_others(command: &Command) -> bool {
    let for_operators = command.flags.contains(Flags::ADMIN)
        && (!command.flags.contains(Flags::OWN_STATE) || seeded("server-loop-ack-recalls"));
    for_operators || ["client|tracking", "info", "memory|stats"].contains(&command.name)
}

/// The same of a command that a client gives, if it is executed now.
pub(crate) fn looks_around(client: &Client, command: &Command) -> bool {
    match &client.transaction {
        Some(queued) if command.name == "exec" => queued.looks_around,
        Some(_) => false,
        None => is_about_others(command),
    }
}

/// Whether a command of this client may write, or has to see what is not settled: a client that
/// watches does (WATCHED-2), and so does one that may wait, or it would wait for what is there.
pub(crate) fn may_write(client: &Client, command: &Command, args: &Args<'_>) -> bool {
    let queued = || client.transaction.as_ref().is_some_and(|transaction| transaction.writes);
    changes(command)
        || client.watches
        || command.name == "watch"
        || command.name == "exec" && queued()
        || command.name == "xread"
            && args.from(1).any(|word| super::is_word(word, "block"))
            && !seeded("server-read-settled-and-wait")
}

/// Whether a command reaches other clients.
fn spreads(command: &Command) -> bool {
    command.flags.contains(Flags::SPREADS)
}

/// Whether a script that only reads may not give a command.
pub(super) fn changes_or_spreads(command: &Command) -> bool {
    changes(command) || spreads(command)
}

/// Whether a command of this client may change keys or reach other clients: such commands wait in a
/// pause of those that write.
pub(crate) fn may_change(client: &Client, command: &Command) -> bool {
    let queued = client.transaction.as_ref().is_some_and(|transaction| transaction.writes || transaction.spreads);
    let executes = command.name == "exec" && queued;
    changes(command) || spreads(command) || executes
}

/// `MULTI`
pub(super) fn multi(call: &mut Call<'_, '_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err(Fail::text("ERR MULTI calls can not be nested"));
    }
    call.client.transaction = Some(Box::default());
    call.out.ok();
    Ok(())
}

/// `DISCARD`
pub(super) fn discard(call: &mut Call<'_, '_>) -> Outcome {
    if call.client.transaction.is_none() {
        return Err(Fail::text("ERR DISCARD without MULTI"));
    }
    end(call.client, call.shared);
    call.out.ok();
    Ok(())
}

/// `WATCH key [key ...]`
pub(super) fn watch(call: &mut Call<'_, '_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err(Fail::text("ERR WATCH inside MULTI is not allowed"));
    }
    for key in call.args.from(1) {
        call.keys.check_key(key)?;
    }
    for key in call.args.from(1) {
        let deadline = call.keys.deadline(key)?;
        let (key, iteration) = ((call.keys.database(), key.to_vec()), call.shared.metrics.iterations);
        call.shared.watches.watch(call.client, key, deadline, iteration);
    }
    call.out.ok();
    Ok(())
}

/// `UNWATCH`
pub(super) fn unwatch(call: &mut Call<'_, '_>) -> Outcome {
    unwatch_all(call.client, call.shared);
    call.out.ok();
    Ok(())
}

/// `EXEC`
pub(super) fn exec(call: &mut Call<'_, '_>) -> Outcome {
    let Some(transaction) = call.client.transaction.take() else {
        return Err(Fail::text("ERR EXEC without MULTI"));
    };
    let doomed = call.shared.watches.is_doomed(call.client.id, call.keys.now());
    unwatch_all(call.client, call.shared);
    if transaction.spoiled {
        return Err(Fail::text("EXECABORT Transaction discarded because of previous errors."));
    }
    if doomed {
        // The reply tells of a change that may not be settled (ITER-1).
        if !seeded("server-null-early") {
            call.keys.expose();
        }
        call.out.null_array();
        return Ok(());
    }
    let database = call.client.database;
    (call.client.executing, call.client.acted) = (true, false);
    let result = execute(call, &transaction);
    call.client.executing = false;
    if result.is_err() {
        call.client.database = database;
    }
    call.client.switching |= call.client.database != database;
    result.map_err(|fail| discarded(&fail))
}

/// Executes a command that is a part of another one: of an EXEC or of a script.
pub(super) fn execute_part(call: &mut Call<'_, '_>, row: usize) -> Outcome {
    let command = CommandTable::get().rows[row];
    // The one before it may have begun to follow changes.
    call.keys.track(call.shared.follows_changes());
    call.keys.begin_part();
    let (touched, parcels) = (call.keys.touched_count(), call.shared.outbox.place());
    call.keys.select(call.client.database);
    let outcome = (command.handler)(call);
    // The next part may leave the mode.
    call.client.strict |= call.shared.is_always(call.client);
    call.shared.metrics.by_command[row].calls += 1;
    call.shared.note_changes(call.keys.new_changes(), Some(&*call.client));
    tracking::remember(call.client, call.shared, row, &call.args);
    note_uses(call.shared, call.keys, call.client.database, command, &call.args);
    call.shared.timed(row, command, call.client, &call.args);
    feed(call.shared, call.client, command, &call.args);
    match outcome {
        Ok(()) => tell_changes(call.shared, call.keys, &call.args, touched),
        Err(_) => {
            call.shared.outbox.drop_from(parcels);
            call.shared.metrics.by_command[row].failed += 1;
        }
    }
    outcome
}

/// Executes what was queued; an error means that nothing of it may stand.
fn execute(call: &mut Call<'_, '_>, transaction: &Transaction) -> Outcome {
    if transaction.writes {
        call.keys.begin_transaction()?;
    }
    call.out.array(transaction.len());
    for (row, args) in transaction.commands() {
        let acts = acts(CommandTable::get().rows[row]);
        // ACL-1: its rights may have changed since it was queued.
        if let Err(fail) = acl::still_permitted(call.client, call.shared, row, &args) {
            call.shared.metrics.count_error(&fail.reply());
            call.out.error(&fail.reply());
            continue;
        }
        let (position, pending) = (call.out.position(), call.out.pending());
        let mut part = Call {
            args,
            out: &mut *call.out,
            client: &mut *call.client,
            others: call.others,
            keys: &mut *call.keys,
            shared: &mut *call.shared,
        };
        let outcome = execute_part(&mut part, row);
        call.client.acted |= acts && outcome.is_ok();
        match outcome {
            // CLIENT REPLY may have said nothing; the list has a place for it.
            Ok(()) if call.out.pending() == pending => call.out.null(),
            Ok(()) => {}
            Err(fail) => {
                if matches!(fail, Fail::Store(_)) || call.keys.part_changed() {
                    return Err(fail);
                }
                call.shared.metrics.count_error(&fail.reply());
                call.out.cut(position);
                call.out.error(&fail.reply());
            }
        }
    }
    Ok(())
}
