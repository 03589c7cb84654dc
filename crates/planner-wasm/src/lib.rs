//! The planner for a browser: compiled to WebAssembly by `scripts/planner-wasm` and carried by the page of `weir plan
//! --html`. JSON in, JSON out; memory is handed over by three functions, since there is nothing else to bind:
//!
//! 1. `input(length)` makes room for what is asked and returns its address;
//! 2. `answer()` calculates, and returns the length of what it says;
//! 3. `output()` is the address of that.

use std::cell::RefCell;

use capacity::knobs::Knobs;
use capacity::plan::{Planner, World};
use capacity::question::{PointInput, Question};
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The plan as its file has it.
    pub plan: Question,
    /// Measurements beside the plan's own.
    pub points: Vec<PointInput>,
    /// Machines and sites.
    pub world: World,
    /// What is turned.
    #[serde(default)]
    pub knobs: Knobs,
}

/// What is said.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    /// HTML that stands between the page's head and its foot.
    Body(String),
    /// What is wrong: the key, what, and what would be right.
    Error(String),
}

/// JSON to JSON: `{"body": "<p>…"}` or `{"error": "…"}`.
pub fn say(asked: &[u8]) -> String {
    let said = match answered(asked) {
        Ok(body) => Said::Body(body),
        Err(why) => Said::Error(why),
    };
    serde_json::to_string(&said).unwrap_or_default()
}

fn answered(asked: &[u8]) -> Result<String, String> {
    let Asked { plan: mut question, points, mut world, knobs } =
        serde_json::from_slice(asked).map_err(|error| error.to_string())?;
    question.point.extend(points);
    knobs.turn(&mut question, &mut world).map_err(|wrong| wrong.to_string())?;
    let answer =
        Planner::new(question, world).and_then(|planner| planner.answer()).map_err(|wrong| wrong.to_string())?;
    Ok(html::plan::body(&answer))
}

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Room for `length` bytes of what is asked next.
// SAFETY: no other function of the module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Answers what was put there; the length of what is said, in bytes.
// SAFETY: no other function of the module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> usize {
    let said = INPUT.with_borrow(|input| say(input));
    OUTPUT.replace(said);
    OUTPUT.with_borrow(String::len)
}

/// Where it stands, until the next call of `answer`.
// SAFETY: no other function of the module has this name.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|said| said.as_ptr())
}
