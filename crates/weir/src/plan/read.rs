//! A plan and what it names.

use std::path::Path;

use capacity::onprem::{SERVERS, Servers};
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
    /// The same for the planner in a browser: `planner_wasm::Asked` as JSON.
    pub asked: serde_json::Value,
}

impl Plan {
    /// Reads a plan and the servers it names; a path in it starts where the plan is.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let text = Text::read(path)?;
        let question: Question = text.parse()?;
        let mut texts = vec![comes_with_weir("servers.toml", SERVERS)];
        if let Some(file) = &question.servers {
            let file = path.parent().unwrap_or(Path::new(".")).join(file);
            if !file.exists() {
                let what = format!("{} is not there", file.display());
                return Err(text.at(&["servers".to_owned()], what, "a file of [[server]] sections, beside the plan"));
            }
            texts.push(Text::read(&file)?);
        }
        let mut servers = Vec::new();
        for text in &texts {
            servers.extend(text.parse::<Servers>()?.server);
        }
        let sites = comes_with_weir("sites.toml", SITES);
        let world = World::of(&question, servers, sites.parse::<Sites>()?.site);
        let asked = asked(&text, &texts, &sites)?;
        Ok(Self { question, text, world, asked })
    }
}

/// The plan and what it names as the planner in a browser takes them.
fn asked(plan: &Text, servers: &[Text], sites: &Text) -> Result<serde_json::Value, LoadError> {
    let list = |text: &Text, key: &str| -> Result<Vec<serde_json::Value>, LoadError> {
        let mut value: serde_json::Value = text.parse()?;
        Ok(value.get_mut(key).and_then(|list| list.as_array_mut().map(std::mem::take)).unwrap_or_default())
    };
    let mut all = Vec::new();
    for text in servers {
        all.extend(list(text, "server")?);
    }
    let mut plan: serde_json::Value = plan.parse()?;
    if let Some(plan) = plan.as_object_mut() {
        // What a deployment reads.
        plan.remove("deploy");
    }
    Ok(serde_json::json!({ "plan": plan, "servers": all, "sites": list(sites, "site")? }))
}

fn comes_with_weir(name: &str, text: &str) -> Text {
    Text { name: name.to_owned(), text: text.to_owned() }
}

/// Whether an example is valid.
#[cfg(test)]
pub fn check_file(path: &Path) -> anyhow::Result<()> {
    Plan::read(path)?.answer(&[]).map(drop)
}
