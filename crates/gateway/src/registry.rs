//! The gateways that a binary can run, and the commands that all of them have.

use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::cli::{Command, Key, Keys, RunArgs, RunKey};
use crate::load::Text;
use crate::routed::{Routed, RoutedGateway};
use crate::shell::{self, Gateway};
use crate::show::{self, LOG, View};
use crate::{connected, drain, fail, json, log, outputs, privilege, schema, top, trace};

/// A gateway that a binary can run.
#[derive(Clone, Copy)]
pub struct GatewayEntry {
    /// What configurations call it.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) schema: fn() -> serde_json::Value,
    pub(crate) examples: &'static [&'static str],
    run: fn(&RunArgs, Text) -> anyhow::Result<()>,
    pub(crate) views: &'static [View],
    run_keys: &'static [RunKey],
    /// Subsystems of its own that emit events.
    pub log_targets: &'static [&'static str],
}

impl GatewayEntry {
    /// The registry line of a gateway.
    pub const fn of<G: Gateway>() -> Self {
        Self {
            name: G::NAME,
            title: G::TITLE,
            schema: schema::of::<G>,
            examples: G::EXAMPLES,
            run: shell::run::<G>,
            views: G::VIEWS,
            run_keys: G::RUN_KEYS,
            log_targets: G::LOG_TARGETS,
        }
    }
}

impl GatewayEntry {
    /// The registry line of a [`Routed`] gateway.
    pub const fn routed<R: Routed>() -> Self {
        Self::of::<RoutedGateway<R>>()
    }
}

/// The gateways that a binary can run; at least one.
#[derive(Clone, Copy)]
pub struct Registry(pub &'static [GatewayEntry]);

impl Registry {
    /// The tables of all gateways, each once.
    fn views(self) -> Vec<View> {
        let mut views: Vec<View> = Vec::new();
        for view in [show::VIEWS].into_iter().chain(self.0.iter().map(|entry| entry.views)).flatten() {
            if views.iter().all(|other| other.topic != view.topic) {
                views.push(*view);
            }
        }
        views
    }

    /// The options that gateways add to `weir run`.
    fn run_keys(self) -> impl Iterator<Item = &'static RunKey> {
        self.0.iter().flat_map(|entry| entry.run_keys)
    }

    /// The options that tables add to `weir show`, each once.
    fn show_keys(self) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for key in self.views().iter().flat_map(|view| view.keys) {
            if keys.iter().all(|other| other.name != key.name) {
                keys.push(*key);
            }
        }
        keys
    }

    /// `command` with what all gateways add to [`Command`]: topics of `weir show`, and options.
    pub fn command(self, command: clap::Command) -> clap::Command {
        let log = PossibleValue::new(LOG).help("The last thousand events; with --follow those that come, too");
        let views = self.views().into_iter().map(|view| PossibleValue::new(view.topic).help(view.help));
        let topics = PossibleValuesParser::new(views.chain([log]).collect::<Vec<_>>());
        let option = |key: Key| Arg::new(key.name).long(key.name).value_name(key.value).help(key.help);
        let of_show = self.show_keys();
        command
            .mut_subcommand("show", |show| {
                show.mut_arg("topic", |topic| topic.value_parser(topics)).args(of_show.into_iter().map(option))
            })
            .mut_subcommand("run", |run| {
                run.args(self.run_keys().map(|run| {
                    let checked = |text: &str| (run.check)(text).map(|()| text.to_owned());
                    option(run.key).env(run.env).value_parser(checked)
                }))
            })
            .mut_subcommand("trace", |trace| trace.args(connected::SELECTORS.iter().copied().map(option)))
    }

    /// Puts the values of those options into a command that was read from `matches`.
    pub fn read_keys(self, command: &mut Command, matches: &ArgMatches) {
        let Some((_, matches)) = matches.subcommand() else { return };
        let (into, keys) = match command {
            Command::Show(args) => (&mut args.keys, self.show_keys()),
            Command::Trace(args) => (&mut args.keys, connected::SELECTORS.to_vec()),
            Command::Run(args) => (&mut args.keys, self.run_keys().map(|run| run.key).collect()),
            _ => return,
        };
        let value = |key: Key| Some((key.name, matches.get_one::<String>(key.name)?.clone()));
        *into = Keys(keys.into_iter().filter_map(value).collect());
    }

    /// Runs a command that all gateways have.
    ///
    /// # Errors
    /// What went wrong.
    pub fn perform(self, command: &Command) -> anyhow::Result<()> {
        match command {
            Command::Run(args) => self.run(args),
            Command::Show(args) => show::show(args, &self.views()),
            Command::Top(args) => top::top(args),
            Command::Trace(args) => trace::trace(args),
            Command::Log(args) => log::log(args),
            Command::Drain(args) => drain::drain(args),
            Command::Reload(args) => shell::reload::reload(args),
            Command::Config(args) => schema::config(args, self.0),
            Command::Schema(args) => outputs::schema(args, self.0, &[]),
        }
    }

    /// `weir run`: the gateway that the configuration names; where it names none, the first one's error tells.
    fn run(self, args: &RunArgs) -> anyhow::Result<()> {
        let text = Text::read(&args.config)?;
        let named = text.gateway();
        let found = self.0.iter().find(|entry| Some(entry.name) == named.as_deref()).or(self.0.first());
        found.map_or_else(|| Err(anyhow::anyhow!("this program has no gateway")), |entry| (entry.run)(args, text))
    }

    /// A program that runs these gateways and has no command but those that all gateways have: all of its `main`.
    pub fn main(self) -> ExitCode {
        if let Some(ended) = privilege::main_of_helper() {
            return ended;
        }
        let matches = self.command(Cli::command()).get_matches_from(json::with_json_files(std::env::args_os()));
        let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        self.read_keys(&mut cli.command, &matches);
        let done = self.perform(&cli.command);
        log::flush();
        fail::exit(done)
    }
}

/// [`Registry::main`] of these gateways.
pub fn cli(gateways: &'static [GatewayEntry]) -> ExitCode {
    Registry(gateways).main()
}

/// The command line of such a program.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}
