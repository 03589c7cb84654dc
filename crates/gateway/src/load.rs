//! From a TOML file to checked configuration, or to an error that points at the key.
//!
//! | file | idea |
//! |---|---|
//! | `spans.rs` | where in the text a path of keys is |
//! | `wording.rs` | what the parser says, in an operator's words |
//! | `error.rs` | the error, as it is printed |

mod error;
mod spans;
mod wording;

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::DeTable;

pub use error::{LoadError, Wrong};

/// A file's text under its name: what spans point into.
#[derive(Clone, Debug)]
pub struct Text {
    /// What it is called in errors.
    pub name: String,
    /// What is in it.
    pub text: String,
}

impl Text {
    /// Reads a file.
    ///
    /// # Errors
    /// [`LoadError::Read`].
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        Ok(Self { name: path.display().to_string(), text })
    }

    /// What the text says, when every key is known and of the right type.
    ///
    /// # Errors
    /// [`LoadError::Wrong`], pointing at the key.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, LoadError> {
        let tree = DeTable::parse(&self.text).map_err(|error| self.syntax(&error))?;
        toml::from_str(&self.text).map_err(|error| self.worded(&error, &tree))
    }

    /// An error that points at a path of keys and list positions; where the last of them is not there, at the nearest
    /// that is.
    pub fn at(&self, path: &[String], what: impl Into<String>, help: impl Into<String>) -> LoadError {
        let found = DeTable::parse(&self.text).ok().map(|tree| spans::find(&tree, path));
        let span = found.map_or(0..0, |span| spans::shown(&self.text, span));
        self.wrong(path.join("."), span, what.into(), Some(help.into()))
    }

    /// The line of a path of keys and list positions, from 1; where the last of them is not there, of the nearest that is.
    pub fn line_of(&self, path: &[String]) -> Option<usize> {
        let tree = DeTable::parse(&self.text).ok()?;
        let span = spans::find(&tree, path);
        let before = self.text.get(..span.start).filter(|_| !span.is_empty())?;
        Some(1 + before.matches('\n').count())
    }

    fn wrong(&self, key: String, span: Range<usize>, what: String, help: Option<String>) -> LoadError {
        LoadError::Wrong(Box::new(Wrong { source: self.clone(), key, span, what, help }))
    }

    fn syntax(&self, error: &toml::de::Error) -> LoadError {
        let span = error.span().unwrap_or(0..0);
        let worded = wording::syntax(error.message());
        self.wrong(String::new(), spans::visible(&self.text, span), worded.what, worded.help)
    }

    fn worded(&self, error: &toml::de::Error, tree: &Spanned<DeTable<'_>>) -> LoadError {
        let span = error.span().unwrap_or(0..0);
        let path = spans::path_at(tree, &span);
        let worded = wording::mistake(error.message());
        let span = if worded.is_missing { span } else { spans::assignment(tree, &path, span) };
        self.wrong(path.join("."), spans::shown(&self.text, span), worded.what, worded.help)
    }
}

impl Text {
    /// What configuration alone can not see: URIs, that workers do not all receive the same packets, and CPUs.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub fn check_machine<'a>(
        &self,
        uris: impl Iterator<Item = &'a str>,
        workers: &dataplane::config::Workers,
    ) -> Result<(), LoadError> {
        for (n, text) in uris.enumerate() {
            let path = ["port".to_owned(), n.to_string(), "uri".to_owned()];
            let uri: port::Uri = match text.parse() {
                Ok(uri) => uri,
                Err(error) => return Err(self.at(&path, error.to_string(), "such as packet:eth0")),
            };
            // A TUN interface gives each packet to one of its queues.
            if workers.count > 1 && !text.contains("{worker}") && uri.kind() != "tun" {
                let what = format!("{} workers would each receive every packet of this port", workers.count);
                let help = match uri.kind() {
                    "packet" => "add fanout=subscriber&group=1&member={worker}/{workers}",
                    "xdp" => "add queue={worker}",
                    _ => "put {worker} somewhere in the URI: it stands for the worker's number",
                };
                return Err(self.at(&path, what, help));
            }
        }
        let there = crate::shell::pin::cpus();
        for (n, cpu) in workers.cpus.iter().enumerate() {
            if !there.is_empty() && !there.contains(cpu) {
                let path = ["workers".to_owned(), "cpus".to_owned(), n.to_string()];
                let list = there.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                let help = format!("one of {list}, or leave the list out and let the kernel decide");
                return Err(self.at(&path, format!("this process may not run on CPU {cpu}"), help));
            }
        }
        Ok(())
    }

    /// Which gateway the text describes, if it says so.
    pub fn gateway(&self) -> Option<String> {
        let tree = DeTable::parse(&self.text).ok()?;
        tree.get_ref().get("gateway")?.get_ref().as_str().map(str::to_owned)
    }
}
