//! `weir top`: a running gateway full screen, through its control socket.
//!
//! | file | content |
//! |---|---|
//! | `model.rs` | samples in; rates, costs and history out |
//! | `screen.rs` | what the screen is set to, and what keys do to it |
//! | `draw.rs`, `body.rs`, `grid.rs` | a frame: around the views, the views, tables that fit a width |
//! | `ask.rs` | threads that ask the gateway |
//!
//! A frame is drawn from model and screen alone, so tests draw frames of recorded samples. Sessions are read only while
//! they are shown, and so seldom that workers spend no measurable time on it.

mod ask;
mod body;
mod draw;
mod grid;
mod model;
mod screen;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{self, Event};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::{At, seconds};
use crate::fail::Usage;
use crate::signals;
use crate::socket::Client;
use crate::tables::Style;
use ask::{Asker, News};
pub use model::{History, KernelRates, Model, PortRates, Rates, Sample, StageCost, TopView, WorkerLoad};
pub use screen::Tab;
use screen::{Next, Screen};

/// Columns and rows of a frame where no terminal has a size.
const FRAME: (u16, u16) = (100, 40);
/// How long a key may wait to be seen, and news to be drawn.
const LOOK: Duration = Duration::from_millis(50);

/// `weir top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir top                            until q; ? explains the keys
  weir top --interval 5 --view stages
  weir top --once                     one frame as text, after one interval
  weir top --once --view drops --size 80x24
  weir top --once --after 60          with the history of a minute
  weir top --json | jq .rates         a line of JSON each interval, until Ctrl-C

Keys: q quit · Tab or 1 to 6 view · arrows, PgUp, PgDn scroll · p pause · + - interval · / filter
of sessions · ? help. A lost connection is shown and tried again.")]
pub struct TopArgs {
    /// Seconds between two samples; rates are means over them.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    pub interval: f64,
    /// The view to begin with.
    #[arg(long, value_enum, value_name = "VIEW", default_value = "overview")]
    pub view: Tab,
    /// Print one frame, after one interval, and end.
    #[arg(long)]
    pub once: bool,
    /// With --once: columns and rows of the frame [default: the terminal's, or 100x40].
    #[arg(long, value_name = "COLUMNSxROWS", value_parser = size, requires = "once")]
    pub size: Option<(u16, u16)>,
    /// With --once: sample for so long, so that the frame has history [default: one interval].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "once")]
    pub after: Option<f64>,
    /// How to reach the gateway, and how to print.
    #[command(flatten)]
    pub at: At,
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let both = text.split_once('x').and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    let is_sensible = |(columns, rows): &(u16, u16)| (1..=1000).contains(columns) && (1..=1000).contains(rows);
    both.filter(is_sensible).ok_or_else(|| "allowed: columns and rows from 1 to 1000, such as 80x24".to_owned())
}

/// Watches a gateway.
///
/// # Errors
/// No gateway runs there, or the screen is no terminal.
pub fn top(args: &TopArgs) -> anyhow::Result<()> {
    if args.at.json.is_wanted() {
        return lines(args);
    }
    if args.once {
        return once(args);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let other = "use --once for one frame as text, --json for a line each interval, or `weir show run --watch 1`";
        bail!(Usage(format!("weir top needs a terminal on standard input and output; {other}")));
    }
    // Before the screen changes: an error stays readable.
    drop(Client::connect(&args.at.socket)?);
    let stop = signals::stop_flag()?;
    let mut terminal = ratatui::try_init()?;
    let done = watch(args, &mut terminal, &stop);
    ratatui::try_restore()?;
    done
}

/// Draws frames and takes keys in until told to stop.
fn watch(args: &TopArgs, terminal: &mut ratatui::DefaultTerminal, stop: &AtomicBool) -> anyhow::Result<()> {
    let (mut model, mut screen) = (Model::default(), Screen::new(args.view, args.interval));
    let asker = Asker::start(&args.at.socket, &screen)?;
    let mut is_new = true;
    while !stop.load(Ordering::Relaxed) {
        while let Some(news) = asker.news() {
            is_new = true;
            take(&mut model, &mut screen, news);
        }
        if std::mem::take(&mut is_new) {
            terminal.draw(|frame| {
                let area = frame.area();
                draw::draw(frame.buffer_mut(), area, &model, &mut screen);
            })?;
        }
        if has_hung_up(LOOK)? {
            break;
        }
        while event::poll(Duration::ZERO)? {
            is_new = true;
            if let Event::Key(key) = event::read()? {
                if screen.press(key) == Next::Quit {
                    return Ok(());
                }
                asker.set(&screen);
            }
        }
    }
    Ok(())
}

/// Waits for a key, or until time is up; whether the terminal is gone. Reading on from one would never end.
fn has_hung_up(wait: Duration) -> std::io::Result<bool> {
    let stdin = std::io::stdin();
    let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    match poll(&mut terminal, Some(&wait)) {
        Ok(_) => Ok(terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        // A signal: a new size, or the end.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn take(model: &mut Model, screen: &mut Screen, news: News) {
    match news {
        News::Lost(why) => screen.lost = Some(why),
        // Asked before the pause.
        News::Sample(_) if screen.is_paused => {}
        News::Sample(sample) => {
            screen.lost = None;
            model.take(*sample);
        }
        News::Sessions(filter, sessions) if *filter == screen.filter => {
            screen.sessions = Some(sessions.map(|page| *page));
        }
        News::Sessions(..) => {}
    }
}

/// Samples of a gateway, an interval apart: two, or those of `--after`; none: told to stop in between.
fn samples(args: &TopArgs, client: &mut Client, stop: &AtomicBool) -> anyhow::Result<Option<Model>> {
    let mut model = Model::default();
    model.take(ask::sample(client)?);
    let until = Instant::now() + Duration::from_secs_f64(args.after.unwrap_or(args.interval));
    loop {
        if !signals::sleep(args.interval, stop) {
            return Ok(None);
        }
        model.take(ask::sample(client)?);
        if Instant::now() >= until {
            return Ok(Some(model));
        }
    }
}

/// `--once`: a frame as text.
fn once(args: &TopArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag()?;
    let mut client = Client::connect(&args.at.socket)?;
    let Some(model) = samples(args, &mut client, &stop)? else { return Ok(()) };
    let mut screen = Screen::new(args.view, args.interval);
    if let Some(request) = screen.wanted() {
        screen.sessions = Some(ask::sessions(&mut client, &request));
    }
    let style = Style::of_stdout();
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| (size.ws_col, size.ws_row));
    let known = args.size.or(terminal.filter(|(columns, rows)| *columns > 0 && *rows > 1));
    let (columns, rows) = known.unwrap_or(FRAME);
    let area = Rect::new(0, 0, columns, rows);
    let mut buffer = Buffer::empty(area);
    draw::draw(&mut buffer, area, &model, &mut screen);
    std::io::stdout().write_all(text(&buffer, style.colour).as_bytes())?;
    Ok(())
}

/// `--json`: a line for each interval, or one with `--once`.
fn lines(args: &TopArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag()?;
    let mut client = Client::connect(&args.at.socket)?;
    let mut out = args.at.json.open()?;
    let Some(mut model) = samples(args, &mut client, &stop)? else { return Ok(()) };
    loop {
        serde_json::to_writer(&mut out, &model.view())?;
        writeln!(out)?;
        out.flush()?;
        if args.once || !signals::sleep(args.interval, &stop) {
            return Ok(());
        }
        model.take(ask::sample(&mut client)?);
    }
}

/// A frame's lines, coloured by escape sequences where that is wanted.
fn text(buffer: &Buffer, colour: bool) -> String {
    let mut out = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let (mut line, mut before) = (String::new(), String::new());
        for x in buffer.area.left()..buffer.area.right() {
            let Some(cell) = buffer.cell((x, y)) else { continue };
            let codes = if colour { codes(cell) } else { String::new() };
            if codes != before {
                line += &format!("\x1b[0{codes}m");
                before = codes;
            }
            line += cell.symbol();
        }
        out += line.trim_end();
        out += if before.is_empty() { "\n" } else { "\x1b[0m\n" };
    }
    out
}

/// Escape codes of a cell's style, each behind a semicolon (ECMA-48, 8.3.117).
fn codes(cell: &Cell) -> String {
    let mut codes = String::new();
    for (modifier, code) in [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")] {
        if cell.modifier.contains(modifier) {
            codes += code;
        }
    }
    codes += match cell.fg {
        Color::Red => ";31",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    };
    codes
}
