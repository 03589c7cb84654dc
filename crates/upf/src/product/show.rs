//! The tables that only a user plane has.

mod acl;
mod peers;
mod sessions;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::protocol::{AclRuleView, PeersView, Request, SessionView, SessionsView};
use gateway::cli::Key;
use gateway::show::{Look, Table, View};

/// All of them.
pub const VIEWS: &[View] = &[View::of::<Sessions>(), View::of::<Peers>(), View::of::<Acl>(), gateway::nat::VIEW];

/// All sessions, or one.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Seen {
    One(Box<SessionView>),
    All(SessionsView),
}

struct Sessions;

impl Table for Sessions {
    type Seen = Seen;
    const TOPIC: &'static str = "sessions";
    const HELP: &'static str = "Sessions and their memory; with --ue one session's rules and usage";

    const KEY: Option<Key> = Some(gateway::show::UE);

    fn question(ue: Option<&str>) -> Result<impl Serialize, String> {
        Ok(gateway::show::address(ue)?.map_or(Request::Sessions, |ue| Request::Session { ue }))
    }

    fn text(look: &Look<'_, Seen>) -> String {
        match &look.now {
            Seen::One(session) => sessions::one(session, look.style),
            Seen::All(all) => sessions::text(all, look.style),
        }
    }
}

struct Peers;

impl Table for Peers {
    type Seen = PeersView;
    const TOPIC: &'static str = "peers";
    const HELP: &'static str = "Control planes by PFCP: associations, sessions, messages, what was refused";

    fn question(_key: Option<&str>) -> Result<impl Serialize, String> {
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

    fn question(_key: Option<&str>) -> Result<impl Serialize, String> {
        Ok(Request::Acl)
    }

    fn text(look: &Look<'_, Vec<AclRuleView>>) -> String {
        acl::text(&look.now, look.earlier.as_deref(), look.style)
    }

    fn json(look: &Look<'_, Vec<AclRuleView>>) -> serde_json::Result<String> {
        serde_json::to_string(&acl::since(&look.now, look.earlier.as_deref()))
    }
}
