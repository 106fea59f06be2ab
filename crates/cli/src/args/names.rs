//! The arguments of commands on names of objects: `ls`, `stat`, `rm`, `chmod`, `chown`, `mv`,
//! `limit`.

use super::OpenArgs;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// The store that contains the names.
#[derive(ClapArgs)]
pub(crate) struct InStore {
    /// The store file
    #[arg(long, env = "EVERBYTE_STORE", default_value = "./everbyte.store")]
    pub store: PathBuf,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// `everbyte ls`.
#[derive(ClapArgs)]
pub(crate) struct LsArgs {
    /// Only names with this prefix
    #[arg(default_value = "")]
    pub prefix: String,
    /// Also prints rights, engine and size of each object
    #[arg(long, short)]
    pub long: bool,
    #[command(flatten)]
    pub store: InStore,
}

/// `everbyte stat` and `everbyte rm`.
#[derive(ClapArgs)]
pub(crate) struct NamesArgs {
    /// The objects
    #[arg(required = true)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub store: InStore,
}

/// `everbyte chmod`.
#[derive(ClapArgs)]
pub(crate) struct ChmodArgs {
    /// Three octal digits, for owner, group and others: read 4, write 2; such as 640
    #[arg(value_parser = mode)]
    pub mode: u16,
    /// The objects
    #[arg(required = true)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub store: InStore,
}

/// `everbyte chown`.
#[derive(ClapArgs)]
pub(crate) struct ChownArgs {
    /// Numbers of user and group: USER, USER:GROUP or :GROUP
    #[arg(value_parser = owner)]
    pub owner: Owner,
    /// The objects
    #[arg(required = true)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub store: InStore,
}

/// `everbyte limit`.
#[derive(ClapArgs)]
pub(crate) struct LimitArgs {
    /// The object
    #[arg(required_unless_present = "each_user")]
    pub name: Option<String>,
    /// Maximum number of clusters of 64 KiB in memory, or `all`; the others lie in a backing file
    #[arg(long, value_name = "CLUSTERS", value_parser = limit)]
    pub resident: Option<Limit>,
    /// The backing file [default: beside the store]
    #[arg(long, value_name = "PATH", requires = "resident")]
    pub backing: Option<PathBuf>,
    /// Maximum number of clusters of the object, or `all` that fit in its span
    #[arg(long, value_name = "CLUSTERS", value_parser = limit)]
    pub quota: Option<Limit>,
    /// Maximum number of clusters of all objects of one user other than root, or `all` for no
    /// quota
    #[arg(long, value_name = "CLUSTERS", value_parser = limit)]
    pub each_user: Option<Limit>,
    #[command(flatten)]
    pub store: InStore,
}

/// A number of clusters, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub Option<u64>);

/// `everbyte mv`.
#[derive(ClapArgs)]
pub(crate) struct MvArgs {
    /// The object
    pub from: String,
    /// Its new name, which must be free
    pub to: String,
    #[command(flatten)]
    pub store: InStore,
}

/// The change made by `everbyte chown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "all" => Ok(Limit(None)),
        _ => text.parse().map(|clusters| Limit(Some(clusters))).map_err(|_| "a number of clusters, or `all`".into()),
    }
}

pub(super) fn mode(text: &str) -> Result<u16, String> {
    let digits =
        Some(text).filter(|text| (1..=4).contains(&text.len())).and_then(|text| u16::from_str_radix(text, 8).ok());
    digits
        .filter(|mode| mode & !0o666 == 0)
        .ok_or_else(|| "such as 640: read 4 and write 2, in each of three digits".into())
}

pub(super) fn owner(text: &str) -> Result<Owner, String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("`{text}` is not the number of a user or group")),
    };
    let owner = Owner { user: number(user)?, group: number(group)? };
    if owner == (Owner { user: None, group: None }) { Err("USER, USER:GROUP or :GROUP".into()) } else { Ok(owner) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_owners_are_read_or_refused() {
        assert_eq!((mode("640"), mode("0660"), mode("0")), (Ok(0o640), Ok(0o660), Ok(0)));
        ["", "777", "8", "-1", "66666", "rw"].iter().for_each(|text| assert!(mode(text).is_err(), "{text}"));
        assert_eq!(owner("1000"), Ok(Owner { user: Some(1000), group: None }));
        assert_eq!(owner("1000:100"), Ok(Owner { user: Some(1000), group: Some(100) }));
        assert_eq!(owner(":100"), Ok(Owner { user: None, group: Some(100) }));
        ["", ":", "me", "1:2:3", "-1", "4294967296"].iter().for_each(|text| assert!(owner(text).is_err(), "{text}"));
    }
}
