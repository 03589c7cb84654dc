//! Service flows, classifiers and filter groups of modems, as they are asked for over the control socket.

use crate::config::{FlowEntry, RuleEntry};
use crate::control::{Control, Refusal};
use serde::de::DeserializeOwned;

use super::observer::mac;
use super::protocol::{CableReply, CableRequest, ClassifierView};

/// Carries a request out; a sentence about the result.
///
/// # Errors
/// Why not; a sentence.
pub fn answer(control: &mut Control, request: &CableRequest) -> Result<CableReply, String> {
    let said = |refusal: Refusal| refusal.to_string();
    let sentence = match request {
        CableRequest::AddFlow { modem, flow } => {
            let flow: FlowEntry = read(flow)?;
            control.add_flow(mac(modem)?, &flow).map_err(said)?;
            format!("modem {modem} has service flow {}", flow.name)
        }
        CableRequest::ChangeFlow { modem, flow } => {
            let change: toml::Table = read(flow)?;
            let name = change.get("name").and_then(toml::Value::as_str).unwrap_or_default();
            let before = control.flow(mac(modem)?, name).map_err(said)?;
            let flow: FlowEntry = read(&changed(before, &change)?.to_string())?;
            control.change_flow(mac(modem)?, &flow).map_err(said)?;
            format!("service flow {name} of modem {modem} changed")
        }
        CableRequest::RemoveFlow { modem, flow } => match control.remove_flow(mac(modem)?, flow).map_err(said)? {
            0 => format!("service flow {flow} of modem {modem} removed"),
            n => format!("service flow {flow} of modem {modem} removed, and the classifiers that chose it: {n}"),
        },
        CableRequest::Classifiers { modem } => {
            let rules = control.classifiers(mac(modem)?).map_err(said)?;
            let text = |(id, rule)| {
                let rule = toml::to_string(&rule).map_err(|error| error.to_string())?;
                Ok(ClassifierView { id, rule })
            };
            return Ok(CableReply::Classifiers(rules.into_iter().map(text).collect::<Result<_, String>>()?));
        }
        CableRequest::AddClassifier { modem, id, rule } => {
            let rule: RuleEntry = read(rule)?;
            let id = control.add_classifier(mac(modem)?, *id, &rule).map_err(said)?;
            format!("modem {modem} has classifier {id}")
        }
        CableRequest::RemoveClassifier { modem, id } => {
            control.remove_classifier(mac(modem)?, *id).map_err(said)?;
            format!("classifier {id} of modem {modem} removed")
        }
        CableRequest::SetFilters { modem, down, up } => {
            control.set_filters(mac(modem)?, down.as_deref(), up.as_deref()).map_err(said)?;
            format!("modem {modem} has other filter groups")
        }
        _ => return Err("that is no question about service flows".to_owned()),
    };
    Ok(CableReply::Done(sentence))
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

/// A service flow with some keys written anew; `none` and `unlimited` leave a key out.
fn changed(before: &FlowEntry, change: &toml::Table) -> Result<toml::Table, String> {
    let mut flow = toml::Table::try_from(before).map_err(|error| error.to_string())?;
    for (key, value) in change {
        match value.as_str() {
            Some("none" | "unlimited") if key != "name" => flow.remove(key),
            _ => flow.insert(key.clone(), value.clone()),
        };
    }
    Ok(flow)
}
