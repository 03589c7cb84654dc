//! Tables that `weir show` knows. Every gateway brings its own; the list of all is the binary's.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::{Key, ShowArgs};
use crate::outputs;
use crate::tables::Style;

/// A table over what a running gateway answers to one question.
pub trait Table {
    /// What is answered, without the name that stands over it.
    type Seen: DeserializeOwned + Serialize + JsonSchema;
    /// What the command line calls it.
    const TOPIC: &'static str;
    /// What it shows, in a sentence.
    const HELP: &'static str;
    /// The option that chooses a part of it.
    const KEY: Option<Key> = None;

    /// The question; `key`: the value of that option, if it was given.
    ///
    /// # Errors
    /// What is wrong with the value; a sentence.
    fn question(key: Option<&str>) -> Result<impl Serialize, String>;

    /// The table as it is printed, with its line ends.
    fn text(look: &Look<'_, Self::Seen>) -> String;

    /// The same as JSON.
    ///
    /// # Errors
    /// It is not serializable.
    fn json(look: &Look<'_, Self::Seen>) -> serde_json::Result<String> {
        serde_json::to_string(&look.now)
    }

    /// The JSON schema of that.
    fn schema() -> Value {
        outputs::schema_of::<Self::Seen>()
    }
}

/// What there is to show.
pub struct Look<'a, T> {
    /// What was answered now.
    pub now: T,
    /// What was answered before, to count from; none: count since the start.
    pub earlier: Option<T>,
    /// How to show it.
    pub args: &'a ShowArgs,
    /// How to print it.
    pub style: Style,
}

/// A [`Table`] among others.
#[derive(Clone, Copy)]
pub struct View {
    /// What the command line calls it.
    pub topic: &'static str,
    /// What it shows, in a sentence.
    pub help: &'static str,
    /// The option that chooses a part of it.
    pub key: Option<Key>,
    /// The request as JSON; an error is a wrong value of the option, in a sentence.
    pub question: fn(&ShowArgs) -> Result<Value, String>,
    /// The JSON schema of its output.
    pub schema: fn() -> Value,
    /// What was answered now, and before, as a table or as JSON.
    pub print: fn(&Value, Option<&Value>, &ShowArgs, Style) -> serde_json::Result<String>,
}

impl View {
    /// The entry of a [`Table`] in a gateway's list.
    pub const fn of<T: Table>() -> Self {
        Self {
            topic: T::TOPIC,
            help: T::HELP,
            key: T::KEY,
            schema: T::schema,
            question: |args| {
                let question = T::question(T::KEY.and_then(|key| args.keys.get(&key)))?;
                serde_json::to_value(question).map_err(|error| error.to_string())
            },
            print: |now, earlier, args, style| {
                let read = |answer: &Value| T::Seen::deserialize(inside(answer));
                let look = Look { now: read(now)?, earlier: earlier.map(read).transpose()?, args, style };
                if args.at.json.is_wanted() { Ok(T::json(&look)? + "\n") } else { Ok(T::text(&look)) }
            },
        }
    }
}

/// An answer without the name that stands over it: `{"ports": […]}`.
fn inside(answer: &Value) -> &Value {
    answer.as_object().and_then(|object| object.values().next()).unwrap_or(answer)
}
