//! Where charging records go: a usage report is acknowledged when its records are on the disk.

use std::collections::VecDeque;
use std::path::Path;

use std::sync::Arc;

use ledger::{Change, Ledger, LedgerError, Pace, Record, Refused, Ticket, Writer};

use super::plane::Acknowledgement;
use gateway::records::SOCKET;
use gateway::socket::{Answers, RawAnswer, RawRequest, Server, ServerError};

/// Records that belong together, and the acknowledgement that waits for them.
pub type Batch = (Vec<Record>, Option<Acknowledgement>);

/// The ledger, and what waits for it.
pub struct Kept {
    ledger: Ledger,
    writer: Arc<Writer>,
    /// Submitted: to be let go in this order.
    held: VecDeque<(Ticket, Acknowledgement)>,
    /// What the writer's queue had no room for.
    crowded: VecDeque<(Vec<Change>, Option<Acknowledgement>)>,
    last: Ticket,
}

impl Kept {
    /// In a folder.
    ///
    /// # Errors
    /// A ledger that cannot be opened or written.
    pub fn open(folder: &Path) -> Result<Self, LedgerError> {
        let ledger = Ledger::open(folder)?;
        let writer = Arc::new(ledger.writer(Pace::default(), |_| {})?);
        Ok(Self { ledger, writer, held: VecDeque::new(), crowded: VecDeque::new(), last: Ticket::default() })
    }

    /// Answers `weir cdr` beside the ledger's file, which nobody else can open meanwhile.
    ///
    /// # Errors
    /// No socket can be there.
    pub(crate) fn open_door(&self) -> Result<Server, ServerError> {
        let folder = self.ledger.path().parent().unwrap_or(Path::new("."));
        Server::start(&folder.join(SOCKET), Arc::new(Door((self.ledger.clone(), self.writer.clone()))))
    }

    /// Takes records in.
    ///
    /// # Errors
    /// The disk has failed.
    pub fn take(&mut self, (records, answer): Batch) -> Result<(), LedgerError> {
        let changes = records.into_iter().map(|record| Change::Append(Box::new(record))).collect();
        self.crowded.push_back((changes, answer));
        self.submit()
    }

    fn submit(&mut self) -> Result<(), LedgerError> {
        while let Some((changes, answer)) = self.crowded.pop_front() {
            // Without records of its own an acknowledgement waits for those before it.
            if !changes.is_empty() {
                match self.writer.submit(changes) {
                    Ok(ticket) => self.last = ticket,
                    Err(Refused::Full(changes)) => {
                        self.crowded.push_front((changes, answer));
                        break;
                    }
                    Err(Refused::Failed(error)) => return Err(error),
                }
            }
            self.held.extend(answer.map(|answer| (self.last, answer)));
        }
        Ok(())
    }

    /// Hands over the acknowledgements whose records are on the disk.
    ///
    /// # Errors
    /// The disk has failed.
    pub fn let_go(&mut self, mut acknowledge: impl FnMut(Acknowledgement)) -> Result<(), LedgerError> {
        self.submit()?;
        if self.held.is_empty() {
            return Ok(());
        }
        let progress = self.writer.progress();
        while let Some((_, answer)) = self.held.pop_front_if(|(ticket, _)| *ticket <= progress.durable) {
            acknowledge(answer);
        }
        progress.failed.map_or(Ok(()), Err)
    }

    /// Whether acknowledgements wait.
    pub fn is_waiting(&self) -> bool {
        !self.held.is_empty() || !self.crowded.is_empty()
    }

    /// Ends it when everything is on the disk; the number of the last record.
    ///
    /// # Errors
    /// The disk has failed.
    pub fn close(mut self) -> Result<u64, LedgerError> {
        while !self.crowded.is_empty() {
            self.submit()?;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.writer.wait(self.last)?;
        Ok(self.ledger.status()?.sequence)
    }
}

/// What is answered about the ledger.
struct Door(gateway::records::Kept);

impl Answers for Door {
    fn answer(&self, _connection: u64, asked: &RawRequest) -> RawAnswer {
        let answer = gateway::records::answered(Some(&self.0), asked);
        answer.unwrap_or_else(|| Err("this is a control plane: ask the gateway at its own control socket".to_owned()))
    }
}
