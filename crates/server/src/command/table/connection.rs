//! Rows of the table: the connection.

use super::*;
use crate::command::{client, connection, kill, server, tracking};

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    Command { tips: ALL_SUCCEEDED, ..plain("ping", -1, FAST.union(CONNECTION), "connection", "1.0.0", "PONG, or the given text", connection::ping) },
    plain("echo", 2, LOADING.union(FAST).union(CONNECTION), "connection", "1.0.0", "The given text", connection::echo),
    plain("hello", -1, HANDSHAKE, "connection", "6.0.0", "Chooses the protocol, 2 or 3, and names the server", connection::hello),
    plain("auth", -2, HANDSHAKE, "connection", "1.0.0", "Gives the server's password", connection::auth),
    plain("select", 2, LOADING.union(FAST).union(CONNECTION), "connection", "1.0.0", "Chooses a database, 0 to 15", connection::select),
    plain("quit", -1, HANDSHAKE, "connection", "1.0.0", "Closes the connection", connection::quit),
    plain("reset", 1, HANDSHAKE, "connection", "6.2.0", "Makes the connection as it was when it opened", connection::reset),
    plain("host:", -1, ANYTIME.union(Flags::NO_AUTH), "connection", "0.1.0", "Closes the connection: HTTP is spoken here by mistake or malice", connection::hang_up),
    plain("post", -1, ANYTIME.union(Flags::NO_AUTH), "connection", "0.1.0", "Closes the connection: HTTP is spoken here by mistake or malice", connection::hang_up),
    Command { complexity: "Depends on the subcommand", subcommands: CLIENT, ..plain("client", -2, NONE, "connection", "2.4.0", "About client connections", server::container) },
];

const ABOUT_CLIENT: Flags = ANYTIME.union(CONNECTION);

#[rustfmt::skip]
const CLIENT: &[Command] = &[
    plain("client|id", 2, ABOUT_CLIENT, "connection", "5.0.0", "The connection's number", client::id),
    Command { tips: OUTPUT, ..plain("client|info", 2, ABOUT_CLIENT, "connection", "6.2.0", "Facts about the connection", client::info) },
    Command { tips: OUTPUT, complexity: "O(N) where N is the number of connections", ..plain("client|list", -2, ADMIN.union(CONNECTION), "connection", "2.4.0", "Facts about connections", client::list) },
    plain("client|setname", 3, ABOUT_CLIENT, "connection", "2.6.9", "Names the connection", client::set_name),
    plain("client|getname", 2, ABOUT_CLIENT, "connection", "2.6.9", "The connection's name", client::get_name),
    plain("client|setinfo", 4, ABOUT_CLIENT, "connection", "7.2.0", "Names the client library: LIB-NAME, LIB-VER", client::set_info),
    plain("client|no-evict", 3, ADMIN.union(CONNECTION), "connection", "7.0.0", "Accepted: clients are not evicted", client::no_evict),
    plain("client|durability", -2, ABOUT_CLIENT, "connection", "everbyte", "The durability that replies to this connection wait for: ALWAYS, INTERVAL, PROCESS, or the DEFAULT", client::durability),
    plain("client|reply", 3, ABOUT_CLIENT, "connection", "3.2.0", "Replies ON, OFF, or SKIP the next one", client::reply),
    plain("client|unblock", -3, ADMIN.union(CONNECTION), "connection", "5.0.0", "Lets a client wait no more, as if by TIMEOUT, or with an ERROR", client::unblock),
    Command { complexity: "O(N) where N is the number of connections", ..plain("client|kill", -3, ADMIN.union(CONNECTION), "connection", "2.4.0", "Ends connections: that of an address, or those that fit ID, TYPE, USER, ADDR, LADDR", kill::kill) },
    plain("client|pause", -3, ADMIN.union(CONNECTION), "connection", "2.9.50", "Lets commands wait for so many milliseconds: those that WRITE, or ALL", kill::pause),
    Command { complexity: "O(N) where N is the number of connections", ..plain("client|unpause", 2, ADMIN.union(CONNECTION), "connection", "6.2.0", "Ends the pause", kill::unpause) },
    plain("client|tracking", -3, ABOUT_CLIENT, "connection", "6.0.0", "Tells the client of changes to keys that it has read, or that begin with a PREFIX", tracking::tracking),
    plain("client|caching", 3, ABOUT_CLIENT, "connection", "6.0.0", "Whether what the next command reads is tracked", tracking::caching),
    plain("client|getredir", 2, ABOUT_CLIENT, "connection", "6.0.0", "The client that is told of changes in this one's stead", tracking::get_redirection),
    plain("client|trackinginfo", 2, ABOUT_CLIENT, "connection", "6.2.0", "The mode of tracking of the connection", tracking::info),
    plain("client|help", 2, LOADING.union(CONNECTION), "connection", "5.0.0", "What there is", client::help),
];
