//! Session reports under way: which session each was about.
//!
//! An answer may come when the session is gone and another has its number. So what it says counts only for the session
//! that was reported on, by its SEID, which is not used again.

use std::collections::HashMap;

/// A Session Report Request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// As it came with the report.
    pub token: u64,
    /// Our SEID of the session; none: it was gone already.
    pub seid: Option<u64>,
}

/// The handle of requests of ours that are about no session.
pub(super) const NO_SESSION: u64 = 0;

/// Reports that wait for their answer. The node answers for each request once, so none stays.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    reports: HashMap<u64, Report>,
    last: u64,
}

impl UnderWay {
    /// A report is sent: the handle that its answer comes with.
    pub fn sent(&mut self, report: Report) -> u64 {
        self.last += 1;
        self.reports.insert(self.last, report);
        self.last
    }

    /// The report that an answer is to, which is under way no longer.
    pub fn take(&mut self, handle: u64) -> Option<Report> {
        self.reports.remove(&handle)
    }
}
