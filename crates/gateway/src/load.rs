//! From a TOML file to checked configuration, or to an error that points at the key.
//!
//! | file | idea |
//! |---|---|
//! | `spans.rs` | where in the text a path of keys is |
//! | `reader.rs` | from the tree to typed values |
//! | `mistake.rs` | what is wrong, as a value |
//! | `renamed.rs` | keys under their former names |
//! | `error.rs` | the error, as it is printed |

mod error;
mod mistake;
mod reader;
mod renamed;
mod spans;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::DeTable;

use crate::shell::ports::PortEntry;
pub use error::{LoadError, Wrong};
use mistake::Mistake;
use reader::Reader;
pub use renamed::Rename;

/// Bytes that a configuration has at most: over a hundred thousand lines.
pub const LONGEST: u64 = 16 << 20;

fn is_longer(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.len() > LONGEST)
}

/// A file's text under its name: what spans point into.
#[derive(Clone, Debug)]
pub struct Text {
    /// What it is called in errors.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What a reader of a file knows beside its types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// The gateway that a file without `gateway` could be for.
    pub gateway: Option<&'static str>,
    /// Keys of its sections that have a new name.
    pub renamed: &'static [Rename],
}

impl Text {
    /// Reads a file, or a pipe such as that of `<(…)` until its writer closes it.
    ///
    /// # Errors
    /// [`LoadError::Read`]; [`LoadError::TooLong`] beyond [`LONGEST`] bytes.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let file = File::open(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        Self::read_from(path, file)
    }

    /// Reads a regular file, and never waits for one: a thread that has other things to do may call it.
    ///
    /// # Errors
    /// As [`Text::read`]; [`LoadError::NotAFile`].
    pub fn read_regular(path: &Path) -> Result<Self, LoadError> {
        let read = |source| LoadError::Read { path: path.to_owned(), source };
        // Opening a FIFO would wait for its writer.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path).map_err(read)?;
        if !file.metadata().map_err(read)?.is_file() {
            return Err(LoadError::NotAFile { path: path.to_owned() });
        }
        Self::read_from(path, file)
    }

    fn read_from(path: &Path, file: File) -> Result<Self, LoadError> {
        let mut text = String::new();
        // One byte more tells a file that is too long from one that just fits.
        let read = file.take(LONGEST + 1).read_to_string(&mut text);
        match read {
            Ok(len) if len as u64 > LONGEST => Err(LoadError::TooLong { path: path.to_owned() }),
            // Cut in the middle of a character.
            Err(error) if error.kind() == ErrorKind::InvalidData && is_longer(path) => {
                Err(LoadError::TooLong { path: path.to_owned() })
            }
            Err(source) => Err(LoadError::Read { path: path.to_owned(), source }),
            Ok(_) => Ok(Self { name: path.display().to_string(), text }),
        }
    }

    /// What the text says, when every key is known and of the right type.
    ///
    /// # Errors
    /// [`LoadError::Wrong`], pointing at the key.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, LoadError> {
        self.parse_with(Hints::default())
    }

    /// As [`Text::parse`], with those hints.
    ///
    /// # Errors
    /// As [`Text::parse`].
    pub fn parse_with<T: DeserializeOwned>(&self, hints: Hints) -> Result<T, LoadError> {
        let (value, warnings) = self.parse_noting(hints)?;
        for warning in warnings {
            eprintln!("warning: {warning}");
        }
        Ok(value)
    }

    /// As [`Text::parse`], with a warning for each key that stands under its former name.
    ///
    /// # Errors
    /// As [`Text::parse`].
    pub(crate) fn parse_noting<T: DeserializeOwned>(&self, hints: Hints) -> Result<(T, Vec<Warning>), LoadError> {
        let tree = DeTable::parse(&self.text).map_err(|error| self.syntax(&error))?;
        let (value, renamed) =
            Reader::read(&tree, hints.renamed).map_err(|mistake| self.worded(&mistake, &tree, hints))?;
        let warning = |(span, rename): (Range<usize>, &renamed::Rename)| Warning {
            place: format!("{}:{}", self.name, 1 + self.text[..span.start].matches('\n').count()),
            key: spans::path_at(&tree, &span).join("."),
            what: format!("`{}` is now `{}`; the former name is read for one release", rename.old, rename.new),
        };
        Ok((value, renamed.into_iter().map(warning).collect()))
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
        let span = spans::visible(&self.text, error.span().unwrap_or(0..0));
        let what = error.message().lines().next().unwrap_or("this is not TOML").to_owned();
        let help = "keys and values are written as in name = \"text\", count = 3, list = [1, 2], under [section] headers; a key \
                    or [section] stands once, sections that repeat have double brackets: [[port]]";
        self.wrong(String::new(), span, what, Some(help.to_owned()))
    }

    fn worded(&self, mistake: &Mistake, tree: &Spanned<DeTable<'_>>, hints: Hints) -> LoadError {
        let span = mistake.span.clone().unwrap_or(0..0);
        let path = spans::path_at(tree, &span);
        let span = if mistake.is_missing() { span } else { spans::assignment(tree, &path, span) };
        self.wrong(path.join("."), spans::shown(&self.text, span), mistake.what(), mistake.help(hints))
    }
}

/// Something in a file that is read, but should be written in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// File and line.
    pub place: String,
    /// Keys and list positions from the top, joined by dots.
    pub key: String,
    /// What to write instead.
    pub what: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.key, self.what)
    }
}

impl Text {
    /// What configuration alone can not see: URIs, that workers do not all receive the same packets, and CPUs.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub(crate) fn check_machine(
        &self,
        ports: &[PortEntry<'_>],
        workers: &dataplane::config::Workers,
    ) -> Result<(), LoadError> {
        for (n, text) in ports.iter().enumerate().filter(|(_, port)| port.on.is_none()).map(|(n, port)| (n, port.uri)) {
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
                    "dpdk" => "add queue={worker}&queues={workers}",
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

    /// A warning for each port that names its mode by a former word.
    ///
    /// `uris`: the ports' URIs, in order.
    pub(crate) fn former_modes<'a>(&self, uris: impl Iterator<Item = &'a str>) -> Vec<Warning> {
        let former = |(n, uri): (usize, &str)| {
            let uri: port::Uri = uri.parse().ok().filter(|uri: &port::Uri| uri.kind() == "packet")?;
            let (old, new) = match uri.get("mode")? {
                "ring" => ("ring", "tpacket3"),
                "slots" => ("slots", "tpacket2"),
                _ => return None,
            };
            let path = ["port".to_owned(), n.to_string(), "uri".to_owned()];
            let LoadError::Wrong(at) = self.at(&path, "", "") else { return None };
            let what = format!("`mode={old}` is now `mode={new}`; the former name is read for one release");
            Some(Warning { place: format!("{}:{}", self.name, at.line()), key: path.join("."), what })
        };
        uris.enumerate().filter_map(former).collect()
    }

    /// Which gateway the text describes, if it says so.
    pub fn gateway(&self) -> Option<String> {
        let tree = DeTable::parse(&self.text).ok()?;
        tree.get_ref().get("gateway")?.get_ref().as_str().map(str::to_owned)
    }
}
