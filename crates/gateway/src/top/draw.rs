//! A frame: model and screen in, cells of a terminal out, at any height and width.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};

use super::body::{Body, body};
use super::grid::{cut, width};
use super::model::{Model, TopView};
use super::screen::{Screen, Tab};
use crate::tables::{duration, many};

/// What keys do: on a line as far as there is room, in this order, and all of them by `?`.
const KEYS: [(&str, &str, &str); 8] = [
    ("q", "quit", "quit; also Ctrl-C"),
    ("?", "help", "these lines"),
    ("Tab", "view", "next view; Shift-Tab the one before; 1 to 6 choose one"),
    ("↑↓", "scroll", "scroll a row; PgUp, PgDn a page; Home, End"),
    ("p", "pause", "pause: take no samples, and go on"),
    ("+-", "interval", "longer and shorter intervals"),
    ("/", "filter", "filter sessions: KEY=VALUE,… or an address, IMSI, MAC, name"),
    ("Esc", "all", "all sessions again"),
];

/// Draws a frame, and notes in the screen how far it scrolls.
pub fn draw(buffer: &mut Buffer, area: Rect, model: &Model, screen: &mut Screen) {
    let (columns, rows) = (usize::from(area.width), usize::from(area.height));
    if columns == 0 || rows == 0 {
        return;
    }
    let mut lines = vec![heading(model.view(), screen, columns)];
    if rows >= 3 {
        lines.push(tabs(screen.tab, columns));
    }
    let room = rows.saturating_sub(lines.len() + 1);
    let Body { head, rows: body } = match (screen.is_help, model.view()) {
        (true, _) => Body { head: Vec::new(), rows: help(columns) },
        (false, None) => Body { head: Vec::new(), rows: vec![Line::from("waiting for the first sample …".dim())] },
        (false, Some(view)) => body(view, screen, columns, room),
    };
    let head = &head[..head.len().min(room)];
    let space = room - head.len();
    screen.drawn = (body.len().saturating_sub(space), space);
    screen.scroll = screen.scroll.min(screen.drawn.0);
    lines.extend(head.iter().cloned());
    lines.extend(body.into_iter().skip(screen.scroll).take(space));
    lines.resize(rows - 1, Line::default());
    lines.truncate(rows - 1);
    if rows > 1 {
        lines.push(foot(screen, columns));
    } else {
        lines = vec![heading(model.view(), screen, columns)];
    }
    for (y, line) in (area.y..).zip(&lines) {
        buffer.set_line(area.x, y, line, area.width);
    }
}

/// Which gateway, how long it runs, and how often it is looked at; or that it is lost.
fn heading(view: Option<&TopView>, screen: &Screen, columns: usize) -> Line<'static> {
    let Some(view) = view else { return Line::from("weir top".bold()) };
    let name = format!("weir {}", view.gateway);
    let mut parts = vec![many(view.workers.len(), "worker"), format!("up {}", duration(view.uptime_seconds))];
    match view.history.seconds.is_empty() {
        true => parts.push("mean since the start".to_owned()),
        false => parts.push(format!("every {}", duration(screen.interval))),
    }
    let mark = match (&screen.lost, screen.is_paused) {
        (Some(why), _) => Some((format!("connection lost, trying again: {why}"), Style::new().red().bold())),
        (None, true) => Some(("paused".to_owned(), Style::new().yellow().bold())),
        (None, false) => None,
    };
    let mut line = vec![Span::styled(name.clone(), Style::new().bold())];
    let mut left = columns.saturating_sub(width(&name));
    if let Some((text, style)) = mark {
        let text = cut(&format!(" · {text}"), left);
        left = left.saturating_sub(width(&text));
        line.push(Span::styled(text, style));
    }
    for part in parts {
        let text = format!(" · {part}");
        if width(&text) > left {
            break;
        }
        left -= width(&text);
        line.push(Span::raw(text));
    }
    Line::from(line)
}

/// The views; where there is no room only the one shown has a name.
fn tabs(shown: Tab, columns: usize) -> Line<'static> {
    let line = |is_short: bool| {
        let mut spans = Vec::new();
        for (n, tab) in (1..).zip(Tab::ALL) {
            let text = match is_short && tab != shown {
                true => format!(" {n} "),
                false => format!(" {n} {} ", tab.name()),
            };
            let style =
                if tab == shown { Style::new().add_modifier(Modifier::REVERSED).bold() } else { Style::new().dim() };
            spans.push(Span::styled(text, style));
        }
        Line::from(spans)
    };
    let long = line(false);
    if long.width() <= columns { long } else { line(true) }
}

/// The filter that is written, what is wrong with it, or the keys.
fn foot(screen: &Screen, columns: usize) -> Line<'static> {
    if let Some(draft) = &screen.draft {
        let text = match &screen.mistake {
            Some(mistake) => format!("/{draft}▏ {mistake}"),
            None => format!("/{draft}▏ Enter: filter, Esc: leave as it was"),
        };
        return Line::from(cut(&super::grid::clean(&text), columns));
    }
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut left = columns;
    for (key, what, _) in KEYS {
        let gap = if spans.is_empty() { "" } else { "  " };
        let text = format!(" {what}");
        let wanted = width(gap) + width(key) + width(&text);
        if wanted > left {
            break;
        }
        left -= wanted;
        spans.extend([Span::raw(gap), Span::styled(key, Style::new().bold()), Span::styled(text, Style::new().dim())]);
    }
    Line::from(spans)
}

fn help(columns: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from("Keys".bold())];
    for (key, _, text) in KEYS {
        let room = columns.saturating_sub(7).max(1);
        for (n, part) in crate::tables::wrapped(text, room).into_iter().enumerate() {
            let key = if n == 0 { key } else { "" };
            lines.push(Line::from(vec![Span::styled(format!("  {key:<5}"), Style::new().bold()), Span::raw(part)]));
        }
    }
    lines.push(Line::default());
    let words = "Rates are means over the interval. A stage's bar is its share of all cycles spent on packets. busy: \
                 time in turns that moved packets; CPU: time of the worker's thread; idle: not busy.";
    lines.extend(crate::tables::wrapped(words, columns.max(1)).into_iter().map(Line::from));
    lines
}
