//! Tables that `weir show` knows. Every gateway brings its own; the list of all is the binary's.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::{Key, ShowArgs};
use crate::outputs;
use crate::socket::Client;
use crate::tables::Style;

/// A table over what a running gateway answers to one question.
pub trait Table {
    /// What is answered, without the name that stands over it.
    type Seen: DeserializeOwned + Serialize + JsonSchema;
    /// What the command line calls it.
    const TOPIC: &'static str;
    /// What it shows, in a sentence.
    const HELP: &'static str;
    /// Options that choose a part of it.
    const KEYS: &'static [Key] = &[];
    /// The gateway itself measures over `--over`: it is asked once.
    const MEASURES: bool = false;

    /// The question that the command line asks.
    ///
    /// # Errors
    /// What is wrong with an option's value; a sentence.
    fn question(args: &ShowArgs) -> Result<impl Serialize, String>;

    /// Asks it; each time no answer has come in time, `wait_on` decides whether to go on waiting.
    ///
    /// # Errors
    /// There is no answer.
    fn ask(client: &mut Client, question: &Value, wait_on: &dyn Fn() -> bool) -> anyhow::Result<Value> {
        Ok(client.ask_any(question, |_| wait_on())?)
    }

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
    /// Options that choose a part of it.
    pub keys: &'static [Key],
    /// The gateway itself measures over `--over`.
    pub measures: bool,
    /// The request as JSON; an error is a wrong value of the option, in a sentence.
    pub question: fn(&ShowArgs) -> Result<Value, String>,
    /// Asks a gateway for the view's content.
    pub ask: fn(&mut Client, &Value, &dyn Fn() -> bool) -> anyhow::Result<Value>,
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
            keys: T::KEYS,
            measures: T::MEASURES,
            ask: T::ask,
            schema: T::schema,
            question: |args| serde_json::to_value(T::question(args)?).map_err(|error| error.to_string()),
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
    let object = answer.as_object().filter(|object| object.len() == 1);
    object.and_then(|object| object.values().next()).unwrap_or(answer)
}
