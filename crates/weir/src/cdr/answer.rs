//! The running gateway's side: what it answers about its ledger.

use ledger::{Change, Filter, LedgerError, Page};

use super::Kept;
use crate::socket::{RecordsView, Reply};

/// Records in one answer.
pub const AN_ANSWER: u32 = 1000;

/// Some of the records asked for.
pub fn records(kept: Option<&Kept>, filter: &Filter, limit: u32) -> Reply {
    answer(kept, |(ledger, _)| ledger.records(filter, limit.min(AN_ANSWER) as usize))
}

/// That records are safe elsewhere. Answered when that is on the disk.
pub fn exported(kept: Option<&Kept>, until: u64) -> Reply {
    if let Some((_, writer)) = kept {
        let ticket = match writer.submit([Change::Exported { until }]) {
            Ok(ticket) => ticket,
            Err(refused) => return Reply::Error(format!("not acknowledged: {refused}; try again")),
        };
        if let Err(error) = writer.wait(ticket) {
            return Reply::Error(format!("not acknowledged: {error}"));
        }
    }
    answer(kept, |_| Ok(Page::default()))
}

fn answer(kept: Option<&Kept>, page: impl FnOnce(&Kept) -> Result<Page, LedgerError>) -> Reply {
    let Some(kept) = kept else {
        return Reply::Error("the weir that runs there keeps no ledger; --ledger FOLDER names another".to_owned());
    };
    let view = || {
        let (page, status) = (page(kept)?, kept.0.status()?);
        Ok::<_, LedgerError>(RecordsView { ledger: kept.0.path().to_owned(), page, status })
    };
    view().map_or_else(|error| Reply::Error(error.to_string()), Reply::Records)
}
