//! What the screen is set to, and what keys do to it. Pure: keys in, state out.

use std::time::Duration;

use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::connected::{ConnectedPage, ConnectedRequest, Filter, Top, filter_of};

/// What the screen shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Tab {
    /// Rates with history, and the most of everything else.
    #[default]
    Overview,
    /// Cost of every stage.
    Stages,
    /// Drops by stage and reason.
    Drops,
    /// Ports.
    Ports,
    /// Workers.
    Workers,
    /// Sessions, or what the gateway has in their place, with the highest rates.
    Sessions,
}

impl Tab {
    /// In the order of their digits.
    pub const ALL: [Self; 6] = [Self::Overview, Self::Stages, Self::Drops, Self::Ports, Self::Workers, Self::Sessions];

    /// What it is called on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Stages => "Stages",
            Self::Drops => "Drops",
            Self::Ports => "Ports",
            Self::Workers => "Workers",
            Self::Sessions => "Sessions",
        }
    }

    fn next(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// Intervals that `+` and `-` choose from, in seconds.
const INTERVALS: [f64; 9] = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0];
/// Letters of a filter.
const FILTER: usize = 200;
/// Sessions that are listed.
const SESSIONS: usize = 100;

/// What the screen is set to.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// What is shown.
    pub tab: Tab,
    /// Rows that are scrolled away.
    pub scroll: usize,
    /// The most that can be, as last drawn; and rows of a page.
    pub drawn: (usize, usize),
    /// No samples are taken.
    pub is_paused: bool,
    /// The keys are explained.
    pub is_help: bool,
    /// Seconds between two samples.
    pub interval: f64,
    /// Which sessions are listed.
    pub filter: Filter,
    /// The filter as it was written.
    pub filter_text: String,
    /// The filter that is being written.
    pub draft: Option<String>,
    /// What is wrong with the filter.
    pub mistake: Option<String>,
    /// Why there is no connection.
    pub lost: Option<String>,
    /// Sessions with the highest rates, or why there are none; none: not asked yet.
    pub sessions: Option<Result<ConnectedPage, String>>,
}

/// Whether the screen goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The view stays.
    GoOn,
    /// The view ends.
    Quit,
}

impl Screen {
    /// The screen as it begins.
    pub fn new(tab: Tab, interval: f64) -> Self {
        Self { tab, interval, ..Self::default() }
    }

    /// Between two samples.
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.interval)
    }

    /// The sessions that are wanted; none: they are not shown.
    pub fn wanted(&self) -> Option<ConnectedRequest> {
        let request = || ConnectedRequest {
            filter: self.filter.clone(),
            limit: SESSIONS,
            top: Some(Top::Rate),
            over_seconds: self.interval.clamp(0.5, 2.0),
            ..ConnectedRequest::default()
        };
        (self.tab == Tab::Sessions && !self.is_paused).then(request)
    }

    /// Takes a key in.
    pub fn press(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::GoOn;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Next::Quit } else { Next::GoOn };
        }
        if self.draft.is_some() {
            self.write(key.code);
            return Next::GoOn;
        }
        if key.code == KeyCode::Char('q') {
            return Next::Quit;
        }
        if std::mem::take(&mut self.is_help) {
            return Next::GoOn;
        }
        self.set(key.code);
        Next::GoOn
    }

    fn set(&mut self, code: KeyCode) {
        let (most, page) = self.drawn;
        match code {
            KeyCode::Char('?' | 'h') => self.is_help = true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('+' | '=') => {
                self.interval = INTERVALS.into_iter().find(|step| *step > self.interval).unwrap_or(self.interval);
            }
            KeyCode::Char('-') => {
                let less = INTERVALS.into_iter().rev().find(|step| *step < self.interval);
                self.interval = less.unwrap_or(self.interval);
            }
            KeyCode::Char('/') => {
                self.show(Tab::Sessions);
                self.draft = Some(self.filter_text.clone());
            }
            KeyCode::Esc => {
                (self.filter, self.mistake) = (Filter::default(), None);
                self.filter_text.clear();
                self.sessions = None;
            }
            KeyCode::Tab | KeyCode::Right => self.show(self.tab.next(1)),
            KeyCode::BackTab | KeyCode::Left => self.show(self.tab.next(Tab::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='6') => self.show(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += page.max(1),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(page.max(1)),
            KeyCode::Home => self.scroll = 0,
            KeyCode::End => self.scroll = most,
            _ => {}
        }
        self.scroll = self.scroll.min(most);
    }

    fn show(&mut self, tab: Tab) {
        if self.tab != tab {
            (self.tab, self.scroll) = (tab, 0);
        }
    }

    /// A key while the filter is written.
    fn write(&mut self, code: KeyCode) {
        let Some(draft) = &mut self.draft else { return };
        match code {
            KeyCode::Char(letter) if draft.len() < FILTER => draft.push(letter),
            KeyCode::Backspace => drop(draft.pop()),
            KeyCode::Esc => (self.draft, self.mistake) = (None, None),
            KeyCode::Enter => match filter_of(draft) {
                Ok(filter) => {
                    self.filter_text = draft.trim().to_owned();
                    (self.filter, self.draft, self.mistake) = (filter, None, None);
                    (self.sessions, self.scroll) = (None, 0);
                }
                Err(mistake) => self.mistake = Some(mistake),
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(screen: &mut Screen, keys: &str) -> Next {
        let mut next = Next::GoOn;
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                letter => KeyCode::Char(letter),
            };
            next = screen.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        next
    }

    #[test]
    fn keys_set_the_screen() {
        let mut screen = Screen::new(Tab::Overview, 1.0);
        press(&mut screen, "\t");
        assert_eq!(screen.tab, Tab::Stages);
        press(&mut screen, "4p+");
        assert_eq!((screen.tab, screen.is_paused, screen.interval), (Tab::Ports, true, 2.0));
        press(&mut screen, "--");
        assert_eq!(screen.interval, 0.5);
        assert!(screen.wanted().is_none(), "sessions are read only while they are shown");
        assert_eq!(press(&mut screen, "?"), Next::GoOn);
        assert!(screen.is_help);
        assert_eq!(press(&mut screen, "xq"), Next::Quit);
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(Screen::new(Tab::Overview, 1.0).press(key), Next::Quit);
    }

    #[test]
    fn a_filter_is_written_and_checked() {
        let mut screen = Screen::new(Tab::Overview, 1.0);
        // Letters of a filter are no commands.
        press(&mut screen, "/dnn=q\n");
        assert_eq!((screen.tab, screen.filter.dnn.as_deref()), (Tab::Sessions, Some("q")));
        assert_eq!(screen.wanted().unwrap().filter, screen.filter);
        press(&mut screen, "/");
        assert_eq!(screen.draft.as_deref(), Some("dnn=q"), "as it was written");
        screen.draft = Some(String::new());
        press(&mut screen, "x=1\n");
        assert!(screen.draft.is_some() && screen.mistake.as_deref().is_some_and(|m| m.contains("unknown key")));
        screen.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        assert_eq!(screen.filter.dnn.as_deref(), Some("q"), "as it was");
    }

    #[test]
    fn scrolling_ends_at_the_last_row() {
        let mut screen = Screen { drawn: (3, 2), ..Screen::new(Tab::Drops, 1.0) };
        press(&mut screen, "jjjjjj");
        assert_eq!(screen.scroll, 3);
        screen.press(KeyEvent::new(KeyCode::PageUp, KeyModifiers::NONE));
        assert_eq!(screen.scroll, 1);
        press(&mut screen, "2");
        assert_eq!(screen.scroll, 0);
    }
}
