//! ACL: users and their rights (`access/`). The check of each request is here too.

use super::fail::{NO_AUTH, NOT_INTEGER};
use super::{CATEGORIES, Call, CommandTable, Fail, Flags, Outcome, category, client, is_word};
use crate::access::{self, Context, Denied, LogEntry, Reason, User, UserId, Users};
use crate::clients::{Client, Closing};
use crate::resp::number::parse_integer;
use crate::resp::parse::Args;
use crate::server_state::ServerState;
use everbyte_media::seeded;

/// Bits of a generated password at most, and without a number.
const GENERATED_MAX: i64 = 4096;
const GENERATED: i64 = 256;

/// Entries of the log that are shown without a number.
const SHOWN: i64 = 10;

/// Notes that something was refused to the client.
pub(super) fn note(client: &Client, shared: &mut ServerState, reason: Reason, object: &[u8], user: &[u8]) {
    let in_transaction = client.transaction.is_some() || client.executing;
    let context = match (client.scripting, in_transaction) {
        (true, _) => Context::Script,
        (false, true) => Context::Multi,
        (false, false) => Context::TopLevel,
    };
    let (time, text) = (shared.clock(), client::line(client, 0, shared));
    let (object, user) = (object.to_vec(), user.to_vec());
    shared.users.log.add(LogEntry { count: 1, reason, context, object, user, time, client: text });
}

/// The right that the client's user lacks for a request, which is noted.
fn missing(client: &Client, shared: &mut ServerState, row: usize, args: &Args<'_>) -> Option<Denied> {
    let denied = match shared.users.get(client.user) {
        Some(user) => user.check(row, args, 0).err()?,
        None => Denied::Command,
    };
    let user = shared.users.name(client.user).to_vec();
    let name = CommandTable::get().rows[row].name.as_bytes();
    let (reason, object) = match denied {
        Denied::Command => (Reason::Command, name),
        Denied::Key(index) => (Reason::Key, args.get(index)),
        Denied::Channel(index) => (Reason::Channel, args.get(index)),
    };
    shared.metrics.denied[reason as usize] += 1;
    note(client, shared, reason, object, &user);
    Some(denied)
}

/// Whether the client's user permits a request (ACL-1).
pub(crate) fn permitted(client: &Client, shared: &mut ServerState, row: usize, args: &Args<'_>) -> Outcome {
    if seeded("server-acl-unchecked") {
        return Ok(());
    }
    match missing(client, shared, row, args) {
        None => Ok(()),
        Some(Denied::Command) => Err(Fail::made(format!(
            "NOPERM this user has no permissions to run the '{}' command",
            CommandTable::get().rows[row].name
        ))),
        Some(Denied::Key(_)) => {
            Err(Fail::text("NOPERM this user has no permissions to access one of the keys used as arguments"))
        }
        Some(Denied::Channel(_)) => {
            Err(Fail::text("NOPERM this user has no permissions to access one of the channels used as arguments"))
        }
    }
}

/// The same as its EXEC runs a command that it has queued.
pub(super) fn still_permitted(client: &Client, shared: &mut ServerState, row: usize, args: &Args<'_>) -> Outcome {
    if seeded("server-acl-queued") {
        return Ok(());
    }
    let reason = match missing(client, shared, row, args) {
        None => return Ok(()),
        Some(Denied::Command) => "no permission to execute the command or subcommand",
        Some(Denied::Key(_)) => "no permission to touch the specified keys",
        Some(Denied::Channel(_)) => "no permission to access one of the channels used as arguments",
    };
    Err(Fail::made(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is \
         no longer allowed for the following reason: {reason}"
    )))
}

/// The same as a script gives a command.
pub(super) fn permitted_to_script(client: &Client, shared: &mut ServerState, row: usize, args: &Args<'_>) -> Outcome {
    if seeded("server-acl-scripts") {
        return Ok(());
    }
    let reason = match missing(client, shared, row, args) {
        None => return Ok(()),
        Some(Denied::Command) => "run this command or subcommand",
        Some(Denied::Key(_)) => "access at least one of the keys mentioned in the command arguments",
        Some(Denied::Channel(_)) => "publish to the channel mentioned in the command",
    };
    Err(Fail::made(format!("ERR The user executing the script can't {reason}")))
}

/// Whether the client's user permits a request, or a command whatever its arguments are; a refusal
/// is not noted.
pub(super) fn permits(client: &Client, shared: &ServerState, row: usize, args: Option<&Args<'_>>) -> bool {
    shared.users.get(client.user).is_some_and(|user| match args {
        Some(args) => user.check(row, args, 0).is_ok(),
        None => user.permits_command(row),
    })
}

/// Refuses what a client may not give at all before it has given a password.
pub(super) fn known(client: &Client, shared: &ServerState, flags: Flags) -> Outcome {
    let open = flags.contains(Flags::NO_AUTH) || seeded("server-no-auth");
    if !open && shared.lacks_password(client) {
        return Err(NO_AUTH);
    }
    Ok(())
}

fn syntax(call: &Call<'_, '_>) -> Fail {
    let word = call.args.get(1);
    Fail::made([b"ERR unknown subcommand or wrong number of arguments for '", word, b"'. Try ACL HELP."].concat())
}

/// `ACL WHOAMI`
pub(super) fn who_am_i(call: &mut Call<'_, '_>) -> Outcome {
    call.out.bulk(call.shared.users.name(call.client.user));
    Ok(())
}

/// `ACL USERS`
pub(super) fn users(call: &mut Call<'_, '_>) -> Outcome {
    let users = call.shared.users.iter();
    call.out.array(users.len());
    users.for_each(|user| call.out.bulk(&user.name));
    call.room()
}

/// `ACL LIST`
pub(super) fn list(call: &mut Call<'_, '_>) -> Outcome {
    let users = call.shared.users.iter();
    call.out.array(users.len());
    users.for_each(|user| call.out.bulk(&user.line()));
    call.room()
}

fn describe(call: &mut Call<'_, '_>, selector: &access::Selector) {
    call.out.bulk(b"commands");
    call.out.bulk(selector.commands_text().as_bytes());
    call.out.bulk(b"keys");
    call.out.bulk(&selector.keys_text());
    call.out.bulk(b"channels");
    call.out.bulk(&selector.channels_text());
}

/// `ACL GETUSER user`
pub(super) fn get_user(call: &mut Call<'_, '_>) -> Outcome {
    let Some(user) = call.shared.users.find(call.args.get(2)).cloned() else {
        call.out.null();
        return Ok(());
    };
    call.out.map(6);
    call.out.bulk(b"flags");
    let flags = user.flags();
    call.out.set(flags.len());
    flags.iter().for_each(|flag| call.out.bulk(flag.as_bytes()));
    call.out.bulk(b"passwords");
    let hashes = user.hashes();
    call.out.array(hashes.len());
    hashes.iter().for_each(|hash| call.out.bulk(hash.as_bytes()));
    describe(call, &user.selectors[0]);
    call.out.bulk(b"selectors");
    call.out.array(user.selectors.len() - 1);
    for selector in &user.selectors[1..] {
        call.out.map(3);
        describe(call, selector);
    }
    call.room()
}

/// `ACL SETUSER user [rule ...]`
pub(super) fn set_user(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.args.get(2);
    if !User::may_be_called(name) {
        return Err(Fail::text("ERR Usernames can't contain spaces or null characters"));
    }
    let rules = access::merged(call.args.from(3)).map_err(|index| {
        // As Redis counts: from the first word of the request.
        let start = call.args.get((index + 3).min(call.args.len() - 1));
        Fail::made([b"ERR Unmatched parenthesis in acl selector starting at '", start, b"'."].concat())
    })?;
    let old = call.shared.users.find(name).cloned();
    let mut user = old.clone().unwrap_or_else(|| User::new(name));
    for rule in &rules {
        user.apply(rule).map_err(|error| {
            let why = error.text().as_bytes();
            Fail::made([b"ERR Error in ACL SETUSER modifier '", &rule[..], b"': ", why].concat())
        })?;
    }
    let id = call.shared.users.put(user.clone());
    if let Some(old) = old {
        end_listeners(call, id, &old, &user);
    }
    call.out.ok();
    Ok(())
}

/// Ends the clients of a user that listen to channels which the user may no longer use.
fn end_listeners(call: &mut Call<'_, '_>, id: UserId, old: &User, new: &User) {
    let all = |user: &User| user.selectors.iter().any(|selector| selector.all_channels);
    let has = |channel: &Vec<u8>| new.selectors.iter().any(|selector| selector.channels.contains(channel));
    let kept = !all(old) && old.selectors.iter().flat_map(|selector| &selector.channels).all(has);
    if all(new) || kept {
        return;
    }
    let shared = &mut call.shared;
    let lost = |client: &Client| {
        client.user == id && client.subscribes() && {
            let permits = |channel: &[u8], pattern| {
                new.selectors.iter().any(|selector| selector.permits_channel(channel, pattern))
            };
            let names = shared.channels.names_of_all(client.id);
            names.iter().any(|(name, pattern)| !permits(name, *pattern))
        }
    };
    if lost(call.client) {
        call.client.closing = Closing::AfterReplies;
    }
    let ends: Vec<(usize, u64)> = (call.others.iter())
        .filter(|other| lost(&other.client))
        .map(|other| (other.client.slot, other.client.id))
        .collect();
    shared.ends.extend(ends);
}

/// Ends all clients whose users are gone: they have no rights already.
fn end_orphans(call: &mut Call<'_, '_>) {
    let gone = |client: &Client| call.shared.users.get(client.user).is_none();
    let ends: Vec<(usize, u64)> = (call.others.iter())
        .filter(|other| gone(&other.client))
        .map(|other| (other.client.slot, other.client.id))
        .collect();
    if gone(call.client) {
        call.client.closing = Closing::AfterReplies;
    }
    call.shared.ends.extend(ends);
}

/// `ACL DELUSER user [user ...]`
pub(super) fn delete_user(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.from(2).any(|name| name == access::DEFAULT) {
        return Err(Fail::text("ERR The 'default' user cannot be removed"));
    }
    let count = call.args.from(2).filter(|name| call.shared.users.remove(name).is_some()).count();
    if count > 0 {
        end_orphans(call);
    }
    call.out.integer(count as i64);
    Ok(())
}

/// `ACL CAT [category]`
pub(super) fn categories(call: &mut Call<'_, '_>) -> Outcome {
    match call.args.len() {
        2 => {
            call.out.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|(name, _)| call.out.bulk(name.as_bytes()));
        }
        3 => {
            let name = call.args.get(2);
            let shown = &name[..name.len().min(128)];
            let belongs =
                category(name).ok_or_else(|| Fail::made([b"ERR Unknown category '", shown, b"'"].concat()))?;
            let rows = Vec::from_iter(CommandTable::get().rows.iter().filter(|row| belongs(row.flags)));
            call.out.array(rows.len());
            rows.into_iter().for_each(|row| call.out.bulk(row.name.as_bytes()));
        }
        _ => return Err(syntax(call)),
    }
    Ok(())
}

/// `ACL GENPASS [bits]`
pub(super) fn generate(call: &mut Call<'_, '_>) -> Outcome {
    let bits = match call.args.len() {
        2 => GENERATED,
        3 => parse_integer(call.args.get(2)).ok_or(NOT_INTEGER)?,
        _ => return Err(syntax(call)),
    };
    if !(1..=GENERATED_MAX).contains(&bits) {
        return Err(Fail::made(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {GENERATED_MAX}"
        )));
    }
    let digits = usize::try_from((bits + 3) / 4).unwrap_or_default();
    let mut bytes = vec![0; digits];
    let mut filled = 0;
    while filled < bytes.len() {
        let part = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        match part {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Fail::made(format!("ERR the system gives no random numbers: {error}"))),
        }
    }
    let text: Vec<u8> = bytes.iter().map(|byte| b"0123456789abcdef"[usize::from(byte & 15)]).collect();
    call.out.bulk(&text);
    Ok(())
}

/// `ACL DRYRUN user command [argument ...]`
pub(super) fn dry_run(call: &mut Call<'_, '_>) -> Outcome {
    let (name, args) = (call.args.get(2), call.args);
    let Some(user) = call.shared.users.find(name) else {
        return Err(Fail::made([b"ERR User '", name, b"' not found"].concat()));
    };
    let table = CommandTable::get();
    let unknown = || Fail::made([b"ERR Command '", args.get(3), b"' not found"].concat());
    let mut row = table.find(args.get(3)).ok_or_else(unknown)?;
    if !table.rows[row].subcommands.is_empty() && args.len() > 4 {
        let full = [table.rows[row].name.as_bytes(), b"|", args.get(4)].concat();
        row = table.find(&full).ok_or_else(unknown)?;
    }
    let command = table.rows[row];
    let (count, arity) = (args.len() as i64 - 3, i64::from(command.arity));
    if (arity > 0 && count != arity) || count < -arity {
        return Err(Fail::arity(command.name));
    }
    let refusal = |what: &[u8], object: &[u8], kind: &[u8]| {
        [b"This user has no permissions to ", what, b" the '", object, b"' ", kind].concat()
    };
    match user.check(row, &args, 3) {
        Ok(()) => call.out.ok(),
        Err(Denied::Command) => call.out.bulk(&refusal(b"run", command.name.as_bytes(), b"command")),
        Err(Denied::Key(index)) => call.out.bulk(&refusal(b"access", args.get(index), b"key")),
        Err(Denied::Channel(index)) => call.out.bulk(&refusal(b"access", args.get(index), b"channel")),
    }
    Ok(())
}

/// `ACL LOG [count | RESET]`
pub(super) fn log(call: &mut Call<'_, '_>) -> Outcome {
    let count = match call.args.len() {
        2 => SHOWN,
        3 if is_word(call.args.get(2), "reset") => {
            call.shared.users.log.clear();
            call.out.ok();
            return Ok(());
        }
        3 => parse_integer(call.args.get(2)).ok_or(NOT_INTEGER)?,
        _ => return Err(syntax(call)),
    };
    let now = call.shared.clock();
    let entries = call.shared.users.log.iter();
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX).min(entries.len());
    call.out.array(count);
    for entry in entries.take(count) {
        call.out.map(7);
        call.out.bulk(b"count");
        call.out.integer(entry.count as i64);
        for (name, value) in [
            ("reason", ["command", "key", "channel", "auth"][entry.reason as usize].as_bytes()),
            ("context", ["toplevel", "multi", "lua"][entry.context as usize].as_bytes()),
            ("object", &entry.object[..]),
            ("username", &entry.user[..]),
        ] {
            call.out.bulk(name.as_bytes());
            call.out.bulk(value);
        }
        call.out.bulk(b"age-seconds");
        call.out.double(now.saturating_sub(entry.time) as f64 / 1000.0);
        call.out.bulk(b"client-info");
        call.out.bulk(entry.client.as_bytes());
    }
    call.room()
}

const NO_FILE: Fail = Fail::text(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
     command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in \
     the Redis configuration.",
);

/// `ACL LOAD`
pub(super) fn load(call: &mut Call<'_, '_>) -> Outcome {
    let path = call.shared.options.acl_file.clone().ok_or(NO_FILE)?;
    let users = access::load(&path).map_err(|errors| Fail::made(format!("ERR {errors}")))?;
    let of_default = |users: &Users| users.get(Users::DEFAULT).cloned();
    let old = of_default(&call.shared.users);
    call.shared.users.replace(users);
    end_orphans(call);
    // The user `default` stays the same one, with other rights.
    if let Some((old, new)) = old.zip(of_default(&call.shared.users)) {
        end_listeners(call, Users::DEFAULT, &old, &new);
    }
    call.out.ok();
    Ok(())
}

/// `ACL SAVE`
pub(super) fn save(call: &mut Call<'_, '_>) -> Outcome {
    let path = call.shared.options.acl_file.clone().ok_or(NO_FILE)?;
    access::save(&path, call.shared.users.iter())
        .map_err(|error| Fail::made(format!("ERR There was an error trying to save the ACLs: {error}")))?;
    call.out.ok();
    Ok(())
}

/// `ACL HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::describe::help_of(call, "acl")
}

/// A client says which user it is. While `default` needs no password Redis takes any for it; here
/// that is an error, so that no client takes the server for protected.
pub(super) fn authenticate(call: &mut Call<'_, '_>, user: &[u8], given: &[u8]) -> Outcome {
    if call.shared.users.takes_any_password(user) {
        return Err(super::fail::NO_PASSWORD);
    }
    let tries = &mut call.client.failed_logins;
    let found = if *tries < FAILED_MAX { call.shared.users.authenticate(user, given) } else { None };
    match found {
        Some(id) => (call.client.user, call.client.authenticated) = (id, true),
        None => {
            *tries += 1;
            if *tries >= FAILED_MAX {
                call.client.closing = Closing::AfterReplies;
            }
            call.shared.metrics.passwords_refused += 1;
            note(call.client, call.shared, Reason::Auth, call.args.get(0), user);
            return Err(super::fail::WRONG_PASSWORD);
        }
    }
    Ok(())
}

/// Wrong passwords of one connection, which then ends.
const FAILED_MAX: u32 = 64;

/// The client is the user `default` again, as when it connected.
pub(super) fn log_out(client: &mut Client, shared: &ServerState) {
    (client.user, client.authenticated) = (Users::DEFAULT, shared.users.is_open());
}
