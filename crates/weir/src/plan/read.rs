//! A plan and what it names.

use std::path::Path;

use capacity::card::equip;
use capacity::onprem::{Server, Servers};
use capacity::plan::World;
use capacity::question::{PointInput, Question};

use gateway::load::{LoadError, Text};

use super::catalogue::{Shelf, over};
use super::certified::Certified;

/// A plan, its text, and the world it is answered in.
pub struct Plan {
    /// What it asks.
    pub question: Question,
    /// So many of its points are in its text; the others are the catalogue's.
    own: usize,
    /// Its text.
    pub text: Text,
    /// Instance types, servers, sites.
    pub world: World,
}

impl Plan {
    /// Reads a plan and what it names; a path in it starts where the plan is.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        Self::read_with(path, None)
    }

    /// The same with a folder of tables instead of the one the plan names.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key, or at the cell of a table.
    pub fn read_with(path: &Path, catalogue: Option<&Path>) -> Result<Self, LoadError> {
        Self::read_certified(path, catalogue, &[])
    }

    /// The same with machines that certificates are of.
    ///
    /// # Errors
    /// As [`Plan::read_with`].
    pub fn read_certified(path: &Path, catalogue: Option<&Path>, machines: &[Certified]) -> Result<Self, LoadError> {
        let text = Text::read(path)?;
        let mut question: Question = text.parse()?;
        let beside = |key: &str, name: &Option<String>, help: &str| {
            let Some(file) = name.as_ref().map(|name| path.parent().unwrap_or(Path::new(".")).join(name)) else {
                return Ok(None);
            };
            if file.exists() {
                return Ok(Some(file));
            }
            Err(text.at(&[key.to_owned()], format!("{} is not there", file.display()), help))
        };
        let named = match catalogue {
            Some(folder) => Some(folder.to_owned()),
            None => beside("catalogue", &question.catalogue, "a folder of tables: weir plan catalogue --to DIR")?,
        };
        let mut shelf = Shelf::read(named.as_deref())?;
        over(&mut shelf.cards, question.card.clone(), |card| &card.name);
        let equipped = |mut servers: Vec<Server>, text: &Text| {
            equip(&mut servers, &shelf.cards).map_err(|wrong| text.at(&wrong.path, wrong.what, wrong.help))?;
            Ok::<_, LoadError>(servers)
        };
        let mut servers = Vec::new();
        if let Some(file) = beside("servers", &question.servers, "a file of [[server]] sections, beside the plan")? {
            let text = Text::read(&file)?;
            servers = equipped(text.parse::<Servers>()?.server, &text)?;
        }
        over(&mut servers, equipped(question.server.clone(), &text)?, |server| &server.name);
        over(&mut shelf.servers, servers, |server| &server.name);
        for machine in machines {
            machine.add(&mut shelf.catalogue, &mut shelf.servers)?;
        }
        shelf.finish()?;
        let own = question.point.len();
        question.point.extend(shelf.catalogue.points(question.gateway));
        let Shelf { catalogue, servers, sites, .. } = shelf;
        let world = World::new(&catalogue, &servers, sites, &question);
        Ok(Self { question, own, text, world })
    }

    /// What the planner in a browser is asked: `planner_wasm::Asked` as JSON. `more`: measurements beside those of the plan
    /// and of the catalogue.
    ///
    /// # Errors
    /// None that [`Plan::read`] has not had.
    pub fn asked(&self, more: &[PointInput]) -> anyhow::Result<String> {
        let mut plan: serde_json::Value = self.text.parse()?;
        if let Some(keys) = plan.as_object_mut() {
            // What a deployment reads, and what has been read already.
            ["deploy", "servers", "catalogue"].iter().for_each(|key| drop(keys.remove(*key)));
        }
        let points: Vec<&PointInput> = self.question.point[self.own..].iter().chain(more).collect();
        Ok(serde_json::json!({ "plan": plan, "points": points, "world": self.world }).to_string())
    }
}

/// Whether an example is valid.
#[cfg(test)]
pub fn check_file(path: &Path) -> anyhow::Result<()> {
    Plan::read(path)?.answer(&[]).map(drop)
}
