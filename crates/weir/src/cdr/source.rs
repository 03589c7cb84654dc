//! Where records come from: the weir that has the ledger open, or the file.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ledger::{Change, FILE, Filter, Ledger, Record};

use super::{FOLDER, Where};
use gateway::records::{AN_ANSWER, RecordsView, Reply, Request, SOCKET};
use gateway::socket::{Client, ClientError};

/// A place with records.
pub enum Source {
    /// A running weir.
    Running {
        /// The way to it.
        client: Client,
        /// Its control socket.
        socket: PathBuf,
        /// Its ledger's file.
        file: PathBuf,
    },
    /// A ledger nobody else has open.
    File(Ledger),
}

impl Source {
    /// A weir that runs is asked, if its ledger is the one that is wanted; otherwise the file is opened.
    ///
    /// # Errors
    /// There are no records there, or whoever has them cannot be asked.
    pub fn find(place: &Where) -> anyhow::Result<Self> {
        match (&place.ledger, Self::ask(&place.socket)) {
            (None, Err(error)) if matches!(error.downcast_ref(), Some(ClientError::NoServer { .. })) => {
                let no_one = || format!("no weir answers at {}", place.socket.display());
                Self::at(Path::new(FOLDER)).with_context(no_one)
            }
            (None, asked) => asked,
            (Some(folder), Ok(Self::Running { client, socket, file })) if is_same(&file, &folder.join(FILE)) => {
                Ok(Self::Running { client, socket, file })
            }
            (Some(folder), _) => Self::at(folder),
        }
    }

    /// The control plane that has a folder's ledger open, or the file.
    fn at(folder: &Path) -> anyhow::Result<Self> {
        match Self::ask(&folder.join(SOCKET)) {
            Ok(source) => Ok(source),
            Err(_) => Ok(Self::File(Ledger::open_existing(folder)?)),
        }
    }

    fn ask(socket: &Path) -> anyhow::Result<Self> {
        let mut client = Client::connect(socket)?;
        let view = view(&mut client, &Request::Records { filter: Filter::default(), limit: 0 })?;
        Ok(Self::Running { client, socket: socket.to_owned(), file: view.ledger })
    }

    /// Some of the records asked for, and what the ledger holds.
    ///
    /// # Errors
    /// The ledger cannot be read, or the weir has gone.
    pub fn page(&mut self, filter: &Filter, limit: u32) -> anyhow::Result<RecordsView> {
        let limit = limit.min(AN_ANSWER);
        match self {
            Self::Running { client, .. } => view(client, &Request::Records { filter: filter.clone(), limit }),
            Self::File(ledger) => Ok(RecordsView {
                ledger: ledger.path().to_owned(),
                page: ledger.records(filter, limit as usize)?,
                status: ledger.status()?,
            }),
        }
    }

    /// Gives every record asked for to `each`, until that is not interested any more.
    ///
    /// # Errors
    /// As for a page; and what `each` says.
    pub fn every(
        &mut self,
        filter: &Filter,
        mut each: impl FnMut(Record) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut filter = filter.clone();
        loop {
            let page = self.page(&filter, AN_ANSWER)?.page;
            for record in page.records {
                if !each(record)? {
                    return Ok(());
                }
            }
            match page.next {
                Some(next) => filter.after = next,
                None => return Ok(()),
            }
        }
    }

    /// Acknowledges records up to that number; durable on return.
    ///
    /// # Errors
    /// They are not acknowledged.
    pub fn exported(&mut self, until: u64) -> anyhow::Result<()> {
        match self {
            Self::Running { client, .. } => view(client, &Request::Exported { until }).map(drop),
            Self::File(ledger) => Ok(ledger.amend(vec![Change::Exported { until }])?),
        }
    }
}

fn view(client: &mut Client, request: &Request) -> anyhow::Result<RecordsView> {
    let Reply::Records(view) = client.ask(request)?;
    Ok(view)
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { socket, file, .. } => {
                write!(f, "records of the weir that runs at {} (ledger {})", socket.display(), file.display())
            }
            Self::File(ledger) => write!(f, "records of {}, which no weir has open", ledger.path().display()),
        }
    }
}
