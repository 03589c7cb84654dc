//! What a user plane's functions have done, in words: access lists, translation, GTP-U paths.

use std::net::IpAddr;

use crate::config::acl::Otherwise;
use crate::n4::paths::Paths;
use dataplane::forward::InstanceId;
use gateway::nat::NatView;

use super::observer::Observer;
use super::protocol::{AclRuleView, PathView};
use super::query::{Query, QueryAnswer};

/// Rows of a page at most.
const PATHS: usize = 100;

impl Observer {
    /// Every rule of every access list, and what it decided on; behind each list its default.
    pub fn acl(&self) -> Vec<AclRuleView> {
        let control = self.control();
        let config = self.config();
        let names = config.instances();
        let mut views = Vec::new();
        for list in &config.acl {
            let instance = name_of(&names, config.instance(list.instance.as_deref()));
            let default = if list.default == Otherwise::Permit { "permit" } else { "deny" };
            for rule in list.rules.iter().map(String::as_str).chain([default]) {
                // Counters are numbered in the order in which the rules are written.
                let (packets, bytes) = control.acl_hits(views.len() as u32);
                views.push(AclRuleView { instance: instance.clone(), rule: rule.to_owned(), packets, bytes });
            }
        }
        views
    }

    /// Who has which blocks of public ports: all, or one subscriber's.
    ///
    /// # Errors
    /// A sentence: nothing is translated, or a worker does not answer.
    pub fn nat(&self, ue: Option<IpAddr>) -> Result<NatView, String> {
        if self.config().nat.is_none() {
            return Err("nothing is translated: there is no [nat]".to_owned());
        }
        let names = self.config().instances();
        let mut view = NatView::default();
        for (n, query) in self.queries.iter().enumerate() {
            let mut from = 0;
            let (more_subscribers, more_mappings) = loop {
                let Some(QueryAnswer::Blocks { blocks, next, subscribers, mappings }) =
                    query.ask(Query::Blocks { from })
                else {
                    return Err(format!("worker {n} does not answer"));
                };
                view.add(&names, &blocks, ue);
                let Some(next) = next else { break (subscribers, mappings) };
                from = next;
            };
            view.subscribers += more_subscribers;
            view.mappings += more_mappings;
        }
        Ok(view.sorted())
    }

    /// GTP-U peers: those that do not answer first, then those of most sessions.
    pub(crate) fn paths(&self, paths: &Paths) -> Vec<PathView> {
        let names = self.config().instances();
        let view = |(path, sessions, failed): (crate::n4::paths::Path, u64, bool)| PathView {
            peer: path.peer.to_string(),
            instance: name_of(&names, path.instance),
            sessions,
            failed,
        };
        let mut views: Vec<PathView> = paths.all().map(view).collect();
        views.sort_by(|a, b| (b.failed, b.sessions, &a.peer).cmp(&(a.failed, a.sessions, &b.peer)));
        views.truncate(PATHS);
        views
    }
}

fn name_of(names: &[String], instance: InstanceId) -> String {
    names.get(usize::from(instance)).cloned().unwrap_or_default()
}
