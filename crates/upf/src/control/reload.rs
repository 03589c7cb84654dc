//! What a reload changes while workers run: routes and access lists.

use dataplane::acl::AccessLists;

use super::Control;
use crate::config::{Config, ConfigError, acl, wrong};

/// What a reload changes, made and checked but not applied.
pub struct Change {
    routes: Option<Vec<dataplane::forward::Route>>,
    lists: Option<AccessLists>,
}

impl Control {
    /// Whether access lists can be replaced: workers read published lists only where there were some at start.
    pub fn has_access_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// Makes the routes and access lists of a configuration, those of `keys`.
    ///
    /// # Errors
    /// What is invalid, by key.
    pub fn prepare(&self, config: &Config, keys: &[&str]) -> Result<Change, ConfigError> {
        let routes = || config.links().routes_over(self.neighbourhood.plan());
        let lists = || {
            let (lists, counters) = acl::lists(config)?;
            if counters > self.hits.len() {
                let what = format!("{counters} access rules, and this process has counters for {}", self.hits.len());
                return Err(wrong(&[&"acl"], what, "fewer rules, or restart the gateway"));
            }
            Ok(lists)
        };
        let routes = keys.contains(&"route").then(routes).transpose()?;
        Ok(Change { routes, lists: keys.contains(&"acl").then(lists).transpose()? })
    }

    /// Applies it: workers have the new tables in their next turn.
    pub fn apply(&mut self, change: Change) {
        if let Some(routes) = change.routes {
            self.neighbourhood.set_routes(routes);
            self.publish();
        }
        if let (Some(lists), Some(publisher)) = (change.lists, &mut self.lists) {
            self.hits_before = (0..self.hits.len()).map(|counter| self.hits.of(counter)).collect();
            publisher.publish(lists);
            publisher.reclaim();
            self.links.iter().for_each(|link| link.waker.nudge());
        }
    }
}
