//! A plan and what it names.

use std::path::Path;

use capacity::catalogue::catalogue;
use capacity::onprem::{SERVERS, Server, Servers};
use capacity::plan::World;
use capacity::question::Question;
use capacity::site::{SITES, Sites};

use gateway::load::{LoadError, Text};

/// A plan, its text, and the world it is answered in.
pub struct Plan {
    /// What it asks.
    pub question: Question,
    /// Its text.
    pub text: Text,
    /// Instance types, servers, sites.
    pub world: World,
}

impl Plan {
    /// Reads a plan and the servers it names; a path in it starts where the plan is.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let text = Text::read(path)?;
        let question: Question = text.parse()?;
        let mut servers = comes_with_weir::<Servers>("servers.toml", SERVERS)?.server;
        if let Some(file) = &question.servers {
            let file = path.parent().unwrap_or(Path::new(".")).join(file);
            if !file.exists() {
                let what = format!("{} is not there", file.display());
                return Err(text.at(&["servers".to_owned()], what, "a file of [[server]] sections, beside the plan"));
            }
            extend(&mut servers, Text::read(&file)?.parse::<Servers>()?.server);
        }
        extend(&mut servers, question.server.clone());
        let mut machines = catalogue();
        let energy = question.price.energy.as_ref();
        machines.extend(servers.iter().map(|server| server.machine(energy)));
        let sites = comes_with_weir::<Sites>("sites.toml", SITES)?.site;
        Ok(Self { question, text, world: World { machines, sites, servers } })
    }
}

/// A later server of the same name replaces an earlier one.
fn extend(servers: &mut Vec<Server>, more: Vec<Server>) {
    servers.retain(|server| more.iter().all(|other| other.name != server.name));
    servers.extend(more);
}

fn comes_with_weir<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T, LoadError> {
    Text { name: name.to_owned(), text: text.to_owned() }.parse()
}

/// Whether an example is valid.
#[cfg(test)]
pub fn check_file(path: &Path) -> anyhow::Result<()> {
    Plan::read(path)?.answer(&[]).map(drop)
}
