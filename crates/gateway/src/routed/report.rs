//! The workers' report as a view of `weir show`: a column for each field of its rows.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Routed, Router};
use crate::cli::ShowArgs;
use crate::show::{Look, Table as Shown};
use crate::socket::{Ask, RawAnswer, RawRequest};
use crate::tables::{Table, count};

/// A request: `{"ask": "report"}`.
#[derive(Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Request {
    Report,
}

/// A reply: `{"report": […]}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Report(Value),
}

impl Ask for Request {
    type Answer = Reply;
    const NAMES: &'static [&'static str] = &["report"];
}

/// Answers what the view asks.
pub(super) fn answer<R: Routed>(router: &Router<R>, asked: &RawRequest) -> Option<RawAnswer> {
    Request::answered(asked, |Request::Report| {
        serde_json::to_value(router.report()?).map(Reply::Report).map_err(|error| error.to_string())
    })
}

/// The view [`REPORT`](Routed::REPORT) of a gateway: `View::of::<Report<MyGateway>>()` among its
/// [`VIEWS`](Routed::VIEWS).
pub struct Report<R>(PhantomData<R>);

impl<R: Routed> Shown for Report<R> {
    type Seen = Rows<R::Row>;
    const TOPIC: &'static str = R::REPORT.0;
    const HELP: &'static str = R::REPORT.1;

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Report)
    }

    fn text(look: &Look<'_, Self::Seen>) -> String {
        let rows: Vec<Value> = look.now.0.iter().filter_map(|row| serde_json::to_value(row).ok()).collect();
        let fields = rows.first().and_then(Value::as_object).into_iter().flatten();
        let head = |(name, value): (&String, &Value)| {
            format!("{}{}", if value.is_number() { ">" } else { "" }, name.replace('_', " "))
        };
        let mut table = Table::new(&fields.map(head).collect::<Vec<_>>());
        for row in &rows {
            table.row(row.as_object().into_iter().flat_map(|fields| fields.values()).map(cell));
        }
        table.render(look.style)
    }
}

/// The rows of a report.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Rows<T>(pub Vec<T>);

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.as_u64().map_or_else(|| other.to_string(), count),
    }
}
