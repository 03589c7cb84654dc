//! The running gateway's side: what it answers about its ledger.

use ledger::{Change, Filter, LedgerError, Page};

use super::Kept;
use super::protocol::{RecordsView, Reply, Request};
use crate::socket::{Ask, RawAnswer, RawRequest};

/// Records in one answer.
pub const AN_ANSWER: u32 = 1000;

/// The answer, if it is a question about a ledger.
pub fn answered(kept: Option<&Kept>, asked: &RawRequest) -> Option<RawAnswer> {
    Request::answered(asked, |request| match request {
        Request::Records { filter, limit } => records(kept, &filter, limit),
        Request::Exported { until } => exported(kept, until),
    })
}

/// Some of the records asked for.
fn records(kept: Option<&Kept>, filter: &Filter, limit: u32) -> Result<Reply, String> {
    answer(kept, |(ledger, _)| ledger.records(filter, limit.min(AN_ANSWER) as usize))
}

/// That records are safe elsewhere. Answered when that is on the disk.
fn exported(kept: Option<&Kept>, until: u64) -> Result<Reply, String> {
    if let Some((_, writer)) = kept {
        let ticket = match writer.submit([Change::Exported { until }]) {
            Ok(ticket) => ticket,
            Err(refused) => return Err(format!("not acknowledged: {refused}; try again")),
        };
        if let Err(error) = writer.wait(ticket) {
            return Err(format!("not acknowledged: {error}"));
        }
    }
    answer(kept, |_| Ok(Page::default()))
}

fn answer(kept: Option<&Kept>, page: impl FnOnce(&Kept) -> Result<Page, LedgerError>) -> Result<Reply, String> {
    let Some(kept) = kept else {
        return Err("the weir that runs there keeps no ledger; --ledger FOLDER names another".to_owned());
    };
    let view = || {
        let (page, status) = (page(kept)?, kept.0.status()?);
        Ok::<_, LedgerError>(RecordsView { ledger: kept.0.path().to_owned(), page, status })
    };
    view().map(Reply::Records).map_err(|error| error.to_string())
}
