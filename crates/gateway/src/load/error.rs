//! What is wrong with a file, as it is printed.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};

use super::Text;

/// Why a file gives no configuration.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LoadError {
    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is no regular file: a running gateway reads its configuration from nothing else", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is longer than {} MiB, the most that is read of a configuration", path.display(), super::LONGEST >> 20)]
    TooLong { path: PathBuf },
    #[error(transparent)]
    Wrong(Box<Wrong>),
}

/// Something in a file is wrong: where, what, and what would be right.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The file.
    pub source: Text,
    /// Keys and list positions from the top, joined by dots; empty where there is none.
    pub key: String,
    /// The bytes to point at.
    pub span: Range<usize>,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: Option<String>,
}

impl Wrong {
    /// Line of the first byte pointed at, from 1.
    pub fn line(&self) -> usize {
        let before = self.source.text.get(..self.span.start).unwrap_or(&self.source.text);
        1 + before.matches('\n').count()
    }

    /// The text with the place marked, for a terminal of that width.
    pub fn drawn(&self, colour: bool, width: usize) -> String {
        let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width).with_context_lines(1);
        let shown = Shown { wrong: self, source: NamedSource::new(&self.source.name, self.source.text.clone()) };
        let mut out = String::new();
        match handler.render_report(&mut out, &shown) {
            Ok(()) => out,
            Err(fmt::Error) => format!("{self}\n"),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.source.name, self.line())?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.what)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Wrong {}

/// A [`Wrong`] in the shape miette draws.
struct Shown<'a> {
    wrong: &'a Wrong,
    source: NamedSource<String>,
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.wrong)
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wrong.key.as_str() {
            "" => write!(f, "{}", self.wrong.what),
            key => write!(f, "{key}: {}", self.wrong.what),
        }
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        self.wrong.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new_with_span(None, self.wrong.span.clone());
        Some(Box::new(std::iter::once(label)))
    }
}
