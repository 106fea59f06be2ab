//! Rows of the table: users.

use super::*;
use crate::command::{acl, server};

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    Command { complexity: "Depends on the subcommand", subcommands: ACL, ..plain("acl", -2, NONE, "server", "6.0.0", "About users and their rights", server::container) },
];

const EACH_USER: &str = "O(N) where N is the number of users";

#[rustfmt::skip]
const ACL: &[Command] = &[
    Command { complexity: EACH_USER, ..plain("acl|load", 2, ADMIN, "server", "6.0.0", "Reads the users from the file, all or none", acl::load) },
    plain("acl|whoami", 2, ANYTIME, "server", "6.0.0", "The name of the connection's user", acl::who_am_i),
    plain("acl|getuser", 3, ADMIN, "server", "6.0.0", "The rights of a user", acl::get_user),
    Command { complexity: EACH_USER, ..plain("acl|users", 2, ADMIN, "server", "6.0.0", "The names of all users", acl::users) },
    Command { complexity: EACH_USER, ..plain("acl|save", 2, ADMIN, "server", "6.0.0", "Writes the users to the file", acl::save) },
    plain("acl|genpass", -2, ANYTIME, "server", "6.0.0", "A random password, of 256 bits or as many as given", acl::generate),
    Command { complexity: "O(N) where N is the number of entries shown", ..plain("acl|log", -2, ADMIN, "server", "6.0.0", "The newest refusals, or RESET", acl::log) },
    Command { complexity: "O(N) where N is the number of rules, and of connections if channels are taken away", ..plain("acl|setuser", -3, ADMIN, "server", "6.0.0", "Makes or changes a user by rules", acl::set_user) },
    Command { complexity: EACH_USER, ..plain("acl|list", 2, ADMIN, "server", "6.0.0", "All users, as lines of the file", acl::list) },
    Command { complexity: "O(N) where N is the number of connections", ..plain("acl|deluser", -3, ADMIN, "server", "6.0.0", "Deletes users and ends their connections", acl::delete_user) },
    plain("acl|dryrun", -4, ADMIN, "server", "7.0.0", "Whether a user might give a command, which is not executed", acl::dry_run),
    Command { complexity: "O(N) where N is the number of commands", ..plain("acl|cat", -2, ANYTIME, "server", "6.0.0", "The categories of commands, or the commands of one", acl::categories) },
    plain("acl|help", 2, LOADING, "server", "6.0.0", "The subcommands", acl::help),
];
