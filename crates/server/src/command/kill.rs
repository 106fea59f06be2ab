//! CLIENT KILL, PAUSE and UNPAUSE: what a client does to others.

use super::fail::SYNTAX;
use super::{Call, Fail, Outcome, is_word};
use crate::access::UserId;
use crate::clients::{Client, Closing};
use crate::resp::number::parse_integer;
use crate::server_state::Pause;

/// A type of clients, as CLIENT KILL and CLIENT LIST name them.
#[derive(Clone, Copy)]
pub(super) enum ClientType {
    Normal,
    Subscriber,
    Replica,
    /// The link to a primary is no client.
    Primary,
}

impl ClientType {
    pub(super) fn parse(word: &[u8]) -> Result<ClientType, Fail> {
        match word {
            _ if is_word(word, "normal") => Ok(ClientType::Normal),
            _ if is_word(word, "pubsub") => Ok(ClientType::Subscriber),
            _ if is_word(word, "replica") || is_word(word, "slave") => Ok(ClientType::Replica),
            _ if is_word(word, "master") => Ok(ClientType::Primary),
            _ => Err(Fail::made([b"ERR Unknown client type '", word, b"'"].concat())),
        }
    }

    pub(super) fn fits(self, client: &Client) -> bool {
        match self {
            ClientType::Normal => !client.replica && !client.subscribes(),
            ClientType::Subscriber => client.subscribes(),
            ClientType::Replica => client.replica,
            ClientType::Primary => false,
        }
    }
}

/// The clients to be ended; what is absent does not matter.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    type_: Option<ClientType>,
    peer: Option<String>,
    local: Option<String>,
    user: Option<UserId>,
    /// Whether the client that asks is left out.
    others_only: bool,
}

impl Filter {
    fn parse(call: &Call<'_, '_>) -> Result<Filter, Fail> {
        let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned());
        if call.args.len() == 3 {
            return Ok(Filter { peer: text(call.args.get(2)), ..Filter::default() });
        }
        let mut filter = Filter { others_only: true, ..Filter::default() };
        let mut words = call.args.from(2);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            match word {
                _ if is_word(word, "id") => {
                    let id = parse_integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                    filter.id = Some(id.ok_or(Fail::text("ERR client-id should be greater than 0"))?);
                }
                _ if is_word(word, "type") => filter.type_ = Some(ClientType::parse(value)?),
                _ if is_word(word, "addr") => filter.peer = text(value),
                _ if is_word(word, "laddr") => filter.local = text(value),
                _ if is_word(word, "user") => {
                    let unknown = || Fail::made([b"ERR No such user '", value, b"'"].concat());
                    filter.user = Some(call.shared.users.id(value).ok_or_else(unknown)?);
                }
                _ if is_word(word, "skipme") => {
                    filter.others_only = match value {
                        _ if is_word(value, "yes") => true,
                        _ if is_word(value, "no") => false,
                        _ => return Err(SYNTAX),
                    };
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(filter)
    }

    fn fits(&self, client: &Client) -> bool {
        self.id.is_none_or(|id| id == client.id)
            && self.type_.is_none_or(|type_| type_.fits(client))
            && self.peer.as_ref().is_none_or(|peer| *peer == client.peer.to_string())
            && self.local.as_ref().is_none_or(|local| *local == client.local.to_string())
            && self.user.is_none_or(|user| user == client.user)
    }
}

/// `CLIENT KILL address`, or `CLIENT KILL [ID id] [TYPE type] [USER user] [ADDR address]
/// [LADDR address] [SKIPME yes | no]`
pub(super) fn kill(call: &mut Call<'_, '_>) -> Outcome {
    let filter = Filter::parse(call)?;
    let mut count = 0;
    for other in call.others.iter().filter(|other| other.client.closing != Closing::Now && filter.fits(&other.client)) {
        call.shared.ends.push((other.client.slot, other.client.id));
        count += 1;
    }
    if !filter.others_only && filter.fits(call.client) {
        call.client.closing = Closing::AfterReplies;
        count += 1;
    }
    match (call.args.len(), count) {
        (3, 0) => return Err(Fail::text("ERR No such client")),
        (3, _) => call.out.ok(),
        _ => call.out.integer(count),
    }
    Ok(())
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`: a pause under way gets no shorter.
pub(super) fn pause(call: &mut Call<'_, '_>) -> Outcome {
    let all = match call.args.from(3).next() {
        _ if call.args.len() > 4 => return Err(syntax(call)),
        None => true,
        Some(word) if is_word(word, "write") => false,
        Some(word) if is_word(word, "all") => true,
        Some(_) => return Err(Fail::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let time = parse_integer(call.args.get(2)).ok_or(Fail::text("ERR timeout is not an integer or out of range"))?;
    let time = u64::try_from(time).map_err(|_| Fail::text("ERR timeout is negative"))?;
    let until = call.shared.clock().checked_add(time).filter(|end| *end <= i64::MAX as u64);
    let until = until.ok_or(Fail::text("ERR timeout is out of range"))?;
    let old = call.shared.pause.unwrap_or(Pause { until: 0, all: false });
    call.shared.pause = Some(Pause { until: old.until.max(until), all: old.all || all });
    call.out.ok();
    Ok(())
}

fn syntax(call: &Call<'_, '_>) -> Fail {
    let word = call.args.get(1);
    Fail::made([b"ERR unknown subcommand or wrong number of arguments for '", word, b"'. Try CLIENT HELP."].concat())
}

/// `CLIENT UNPAUSE`: a FAILOVER goes on.
pub(super) fn unpause(call: &mut Call<'_, '_>) -> Outcome {
    call.shared.pause = None;
    call.shared.pause_ended = true;
    call.out.ok();
    Ok(())
}
