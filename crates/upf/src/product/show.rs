//! The tables that only a user plane has.

mod acl;
mod peers;
mod sessions;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::protocol::{AclRuleView, PeersView, Request, SessionView};
use gateway::cli::{Key, ShowArgs};
use gateway::connected::{self, ConnectedPage};
use gateway::show::{Look, Table, View};
use gateway::socket::{self, Client};
use serde_json::Value;

/// All of them.
pub const VIEWS: &[View] = &[View::of::<Sessions>(), View::of::<Peers>(), View::of::<Acl>(), gateway::nat::VIEW];

/// Chooses one subscriber's session.
const UE: &str = connected::KEYS[0].name;

/// All sessions, or one.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Seen {
    One(Box<SessionView>),
    All(ConnectedPage),
}

struct Sessions;

impl Table for Sessions {
    type Seen = Seen;
    const TOPIC: &'static str = "sessions";
    const HELP: &'static str =
        "Sessions: identities, addresses, tunnels, usage. With --ue one session's rules and usage";
    const KEYS: &'static [Key] = connected::KEYS;
    const MEASURES: bool = true;

    fn question(args: &ShowArgs) -> Result<impl Serialize, String> {
        match args.keys.0.as_slice() {
            [(name, ue)] if *name == UE => {
                let ue = gateway::show::address(Some(ue))?.ok_or("--ue: an address is missing")?;
                serde_json::to_value(Request::Session { ue })
            }
            _ => serde_json::to_value(socket::Request::Connected(Box::new(connected::request(&args.keys, args.over)?))),
        }
        .map_err(|error| error.to_string())
    }

    fn ask(client: &mut Client, question: &Value, wait_on: &dyn Fn() -> bool) -> anyhow::Result<Value> {
        match question.get("ue") {
            Some(_) => Ok(client.ask_any(question, |_| wait_on())?),
            None => connected::ask(client, question),
        }
    }

    fn text(look: &Look<'_, Seen>) -> String {
        match &look.now {
            Seen::One(session) => sessions::one(session, look.style),
            Seen::All(page) => connected::text(page, look.style),
        }
    }
}

struct Peers;

impl Table for Peers {
    type Seen = PeersView;
    const TOPIC: &'static str = "peers";
    const HELP: &'static str = "Control planes by PFCP: associations, sessions, messages, what was refused";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Peers)
    }

    fn text(look: &Look<'_, PeersView>) -> String {
        peers::text(&look.now, look.style)
    }
}

struct Acl;

impl Table for Acl {
    type Seen = Vec<AclRuleView>;
    const TOPIC: &'static str = "acl";
    const HELP: &'static str = "Access lists: packets and bytes each rule decided on";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Acl)
    }

    fn text(look: &Look<'_, Vec<AclRuleView>>) -> String {
        acl::text(&look.now, look.earlier.as_deref(), look.style)
    }

    fn json(look: &Look<'_, Vec<AclRuleView>>) -> serde_json::Result<String> {
        serde_json::to_string(&acl::since(&look.now, look.earlier.as_deref()))
    }
}
