//! A gateway to learn from: IP packets come in by ports with or without VLAN tag, are policed and counted by the longest
//! configured prefix of their source address, and are routed out. `README.md` walks through its files.

#![forbid(unsafe_code)]

pub mod config;
pub mod drops;
pub mod pipeline;
pub mod police;

use dataplane::config::ConfigError;
use engine::{Burst, Clock, Ctx, Layout, Pipeline};
use gateway::metrics::{Kind, Page};
use gateway::routed::{Origin, Report, Routed};
use gateway::show::View;

use config::Config;
use pipeline::{Pipelines, ToyKind};
use police::{Source, Sources, Usage};

/// The toy gateway.
pub struct Toy;

impl Routed for Toy {
    const NAME: &'static str = "toy";
    const TITLE: &'static str = "a policing router";
    const VIEWS: &'static [View] = &[View::of::<Report<Self>>()];
    const EXAMPLES: &'static [&'static str] = &[include_str!("../toy.toml")];
    const REPORT: (&'static str, &'static str) = ("sources", "Source prefixes: what passed, what was over the rate");
    type Config = Config;
    type Kind = ToyKind;
    type Pipelines = Pipelines;
    type Own = Sources;
    type Row = Usage;

    fn check(config: &Config) -> Result<(), ConfigError> {
        config.source.iter().enumerate().try_for_each(|(n, section)| Source::of(n, section)?.check_apart(n, config))
    }

    fn build(config: &Config, _worker: u16, layout: &mut Layout) -> (Pipelines, Sources) {
        (Pipelines::new(layout, &()), Sources::of(config))
    }

    fn run<C: Clock>(all: &mut Pipelines, origin: Origin, burst: &mut Burst<ToyKind>, cx: &mut Ctx<'_, ToyKind>) {
        match origin {
            Origin::Port(_) => all.routed.run::<C>(burst, cx),
            Origin::Us => all.ours.run::<C>(burst, cx),
        }
    }

    /// A source's bucket is of one worker.
    fn owner(sources: &Sources, packet: &[u8]) -> Option<u16> {
        sources.owner(packet)
    }

    fn rows(config: &Config) -> Vec<Usage> {
        let row = |section: &config::SourceSection| Usage { prefix: section.prefix.clone(), ..Usage::default() };
        config.source.iter().map(row).collect()
    }

    fn add(sources: &Sources, rows: &mut [Usage]) {
        sources.add_to(rows);
    }

    fn metrics(rows: &[Usage], page: &mut Page) {
        let help = "Packets from a source prefix within its rate.";
        let mut family = page.family("weir_source_packets_total", Kind::Counter, help);
        for row in rows {
            family.sample(&[("prefix", &row.prefix)], row.packets);
        }
    }
}
