//! What a reload does in the running gateway.

use std::sync::{Mutex, PoisonError, Weak};

use dataplane::config::ConfigError;
use serde_json::Value;

use super::super::run::warn_of_former_names;
use super::diff::{self, Difference};
use super::{Effect, KeyChange, LIVE, LiveKey, ReloadView};
use crate::cli::RunArgs;
use crate::load::{LoadError, Text};
use crate::log;
use crate::shell::Sections;
use crate::shell::{Gateway, Loaded, Product as _};

/// A running gateway's configuration, and how it is read again.
pub trait Reload: Send + Sync {
    /// Reads the file again and applies what can be; with `check` only compares.
    ///
    /// # Errors
    /// Why it was refused, a sentence with file, line and key: nothing has changed then.
    fn reload(&self, check: bool) -> Result<ReloadView, String>;

    /// The configuration in use, without keys that are not set.
    fn running(&self) -> Value;
}

/// A part of a gateway that goes by another configuration while it runs.
pub trait Live<C> {
    /// What changes, made and checked.
    type Change;

    /// Makes what changes by `keys` of a configuration that was checked. Nothing has changed yet.
    ///
    /// # Errors
    /// What cannot be applied, by key, and what would be right.
    fn prepare(&mut self, config: &C, keys: &[&str]) -> Result<Self::Change, ConfigError>;

    /// Applies it. It cannot fail any more.
    fn apply(&mut self, change: Self::Change);
}

/// Has a part, which the caller keeps locked, go by `keys` of a configuration; with `check` only finds out whether it could.
/// All of it is made and checked before anything is applied.
///
/// # Errors
/// As [`Live::prepare`].
pub fn apply_to<C, T: Live<C>>(part: &mut T, config: &C, keys: &[&str], check: bool) -> Result<(), ConfigError> {
    let change = part.prepare(config, keys)?;
    if !check {
        part.apply(change);
    }
    Ok(())
}

/// [`Reload`] of a gateway.
pub struct Reloader<G: Gateway> {
    args: RunArgs,
    running: Mutex<Value>,
    product: Weak<G::Product>,
}

impl<G: Gateway> Reloader<G> {
    /// Of a gateway that was started with these arguments and that configuration.
    ///
    /// # Errors
    /// The configuration is no tree of values.
    pub fn new(args: &RunArgs, loaded: &Loaded<G>, product: Weak<G::Product>) -> anyhow::Result<Self> {
        Ok(Self { args: args.clone(), running: Mutex::new(serde_json::to_value(&loaded.config)?), product })
    }

    fn live() -> impl Iterator<Item = &'static LiveKey> {
        LIVE.iter().chain(G::LIVE)
    }

    fn try_reload(&self, check: bool) -> Result<ReloadView, String> {
        // One reload at a time.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let product = self.product.upgrade().ok_or("the gateway is stopping")?;
        let text = Text::read_regular(&self.args.config).map_err(|error| unreadable(&error))?;
        let loaded = G::load(&self.args, text).map_err(|error| format!("{error:#}"))?;
        let file = serde_json::to_value(&loaded.config).map_err(|error| error.to_string())?;
        let found = diff::differences(&running, &file);
        let mut sections: Vec<&'static str> = Vec::new();
        let mut changes = Vec::new();
        for difference in &found {
            let section = diff::live(Self::live(), &difference.path).map(|entry| entry.key);
            let is_own = |key: &str| G::LIVE.iter().any(|own| own.key == key);
            let section = section.filter(|section| diff::is_aligned(&running, &file, section));
            let section = section.filter(|section| !is_own(section) || !G::needs_restart(&product, section));
            sections.extend(section);
            changes.push(change(&loaded.text, difference, section.is_some()));
        }
        sections.sort_unstable();
        sections.dedup();
        let view = ReloadView { file: loaded.text.name.clone(), check, changes };
        let mut merged = running.clone();
        sections.iter().for_each(|section| diff::take(&mut merged, &file, section));
        let config: G::Config = serde_json::from_value(merged.clone())
            .map_err(|error| format!("{}: live keys do not fit what runs: {error}", view.file))?;
        let mixed = Loaded::<G> { config, text: loaded.text, warnings: loaded.warnings };
        if view.count(Effect::Restart) > 0 {
            let help = "restart the gateway, or leave the keys that need a restart as they are";
            mixed.check().map_err(|error| format!("{error}; depends on a key that needs a restart: {help}"))?;
        }
        let own: Vec<&str> = sections.iter().copied().filter(|key| G::LIVE.iter().any(|own| own.key == *key)).collect();
        if !own.is_empty() {
            G::apply(&mixed.config, &own, &product, check).map_err(|error| mixed.wrong(&error).to_string())?;
            product.shell().call_control();
        }
        if !check {
            warn_of_former_names(&mixed.warnings);
            if sections.iter().any(|section| section.starts_with("log.")) {
                log::set_configured(mixed.config.head().log, &self.args.log);
            }
            *running = merged;
        }
        Ok(view)
    }
}

impl<G: Gateway> Reload for Reloader<G> {
    fn reload(&self, check: bool) -> Result<ReloadView, String> {
        let done = self.try_reload(check);
        match &done {
            _ if check => {}
            Ok(view) => reloaded(view),
            Err(error) => tracing::error!(
                target: "process", event = "config_refused", file = %self.args.config.display(), %error,
                "configuration refused, nothing has changed"
            ),
        }
        done
    }

    fn running(&self) -> Value {
        diff::set_only(self.running.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn reloaded(view: &ReloadView) {
    let diff: Vec<String> = view.changes.iter().map(ToString::to_string).collect();
    let (live, restart) = (view.count(Effect::Live), view.count(Effect::Restart));
    tracing::info!(
        target: "process", event = "config_reloaded", file = %view.file, applied = live, restart,
        changes = %diff.join("; "), "configuration read again"
    );
}

fn unreadable(error: &LoadError) -> String {
    let LoadError::Read { source, .. } = error else { return error.to_string() };
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => format!(
            "{error}; the gateway has given up its privileges: let its user read the file and its folder (chgrp, chmod \
             640), and keep the file in the folder it was started from"
        ),
        _ => error.to_string(),
    }
}

fn change(text: &Text, difference: &Difference, live: bool) -> KeyChange {
    let value = |value: &Value| (!value.is_null()).then(|| diff::set_only(value.clone()).to_string());
    let Difference { path, old, new } = difference;
    KeyChange {
        key: path.join("."),
        line: if new.is_null() { None } else { text.line_of(path) },
        old: value(old),
        new: value(new),
        effect: if live { Effect::Live } else { Effect::Restart },
    }
}
