//! The topic of `weir show`, such as `sessions` or `subscribers`.

use std::marker::PhantomData;

use serde::Serialize;
use serde_json::Value;

use super::{ConnectedPage, ConnectedRequest, KEYS};
use crate::cli::{Key, ShowArgs};
use crate::show::{Look, Table};
use crate::socket::{Client, Request};

/// What a gateway calls them.
pub trait Topic {
    /// The topic of `weir show`.
    const TOPIC: &'static str;
    /// What it shows, in a sentence.
    const HELP: &'static str;
}

/// The table of `weir show`, of any gateway's subscribers.
pub struct ConnectedTable<T>(PhantomData<T>);

impl<T: Topic> Table for ConnectedTable<T> {
    type Seen = ConnectedPage;
    const TOPIC: &'static str = T::TOPIC;
    const HELP: &'static str = T::HELP;
    const KEYS: &'static [Key] = KEYS;
    const MEASURES: bool = true;

    fn question(args: &ShowArgs) -> Result<impl Serialize, String> {
        super::request(&args.keys, args.over).map(|request| Request::Connected(Box::new(request)))
    }

    fn ask(client: &mut Client, question: &Value, _wait_on: &dyn Fn() -> bool) -> anyhow::Result<Value> {
        ask(client, question)
    }

    fn text(look: &Look<'_, ConnectedPage>) -> String {
        super::text(&look.now, look.style)
    }
}

/// Asks for a page until it is whole.
///
/// # Errors
/// The gateway does not answer, or refuses the request.
pub fn ask(client: &mut Client, question: &Value) -> anyhow::Result<Value> {
    let request: ConnectedRequest = serde_json::from_value({
        let mut question = question.clone();
        question.as_object_mut().and_then(|question| question.remove("ask"));
        question
    })?;
    Ok(serde_json::to_value(super::whole(client, &request)?)?)
}
