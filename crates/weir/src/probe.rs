//! `weir probe`: what a machine carries, as a signed certificate.
//!
//! | file | content |
//! |---|---|
//! | `burst` | burst credit against an agent |
//! | `elsewhere` | a gateway, weir's or somebody else's, through sessions that it gives |
//! | `page` | a certificate as a page |
//! | `text` | the same for terminals |

pub mod burst;
pub mod elsewhere;
mod page;
mod text;

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::bench::BenchError;
use ::bench::probe::quick::{QuickOptions, quick};
use ::bench::probe::{FarHost, Progress};
use anyhow::{Context, bail};
use certificate::{Certificate, CheckError, Key, check};
use clap::{Args, Subcommand};
use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::signals;
use gateway::tables::Style;

use crate::agent::{address, secret};

/// `weir probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir probe quick -o probe.html              15 minutes: queues, flows, latency, spread
  sudo weir probe quick --minutes 2 --json c.json  the same, shorter
  sudo weir probe quick --interface eth1 --agent 10.0.0.2:4780 --secret FILE
                                                   a network card, weir agent at its other end
  weir probe burst --agent 10.0.0.2:4780 --secret FILE --minutes 180
                                                   burst credit against weir agent on another host
  weir probe gateway gen.toml --access HOST:PORT --core HOST:PORT --secret FILE --cp cp.toml
                                                   somebody else's user plane, sessions by PFCP
  weir probe broadband --name X                    a broadband gateway, subscribers by DHCP
  weir probe check c.json                          hash and signature of a certificate
  weir probe check c.json --trust KEY -o c.html    signed by this key? and its page
  weir plan --from c.json                          plan with the machine

Without --interface a probe measures on virtual links of its own. The certificate is signed by a
key that is made on first use ($HOME/.config/weir/probe.key, mode 0600), or by that of --key.")]
pub struct ProbeArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What there is.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Generator, receive, transmit and forward by queues and sizes, flows, latency, spread.
    Quick(QuickArgs),
    /// Burst credit: peak, baseline, depth and refill of a limit between this host and an agent.
    Burst(burst::BurstArgs),
    /// What a user plane carries, weir's or somebody else's: rate, latency and spread between two agents.
    Gateway(Box<elsewhere::GatewayArgs>),
    /// What a broadband gateway carries: subscribers by DHCP behind two VLAN tags.
    Broadband(Box<elsewhere::ProbeBroadbandArgs>),
    /// Check hash and signature of a certificate.
    Check(CheckArgs),
}

/// Where a certificate goes, and who signs it.
#[derive(Debug, Args)]
pub struct OutArgs {
    /// Write the certificate as a page, complete in one file.
    #[arg(short, long, value_name = "PAGE.html")]
    pub output: Option<PathBuf>,
    /// The private key that signs; made where no file is [default: $HOME/.config/weir/probe.key].
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// `weir probe quick`.
#[derive(Debug, Args)]
pub struct QuickArgs {
    /// Minutes that all steps are to take; set-up of links is beyond them.
    #[arg(long, value_name = "N", default_value = "15", value_parser = minutes)]
    pub minutes: f64,
    /// Kind of the ports: plain, mmsg, ring or xdp; dpdk in builds that have it.
    #[arg(long, value_name = "KIND", default_value = "ring")]
    pub port: String,
    /// Queues at most, each with a worker [default: CPUs without the load's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queues: Option<u16>,
    /// Probe this interface of this host instead of virtual links; weir agent's port is at the other end.
    #[arg(long, value_name = "NAME", requires_all = ["agent", "secret"])]
    pub interface: Option<String>,
    /// With --interface: where weir agent listens on the other host.
    #[arg(long, value_name = "HOST:PORT", requires = "interface")]
    pub agent: Option<String>,
    /// With --interface: a file with the secret that both have.
    #[arg(long, value_name = "FILE", requires = "interface")]
    pub secret: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub out: OutArgs,
}

/// `weir probe check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A certificate that weir probe wrote.
    #[arg(value_name = "CERT.json")]
    pub file: PathBuf,
    /// The public key that must have signed it: 64 hexadecimal digits.
    #[arg(long, value_name = "PUBKEY")]
    pub trust: Option<String>,
    /// Write the certificate as a page.
    #[arg(short, long, value_name = "PAGE.html")]
    pub output: Option<PathBuf>,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|minutes| (0.01..=1440.0).contains(minutes));
    number.ok_or_else(|| "allowed: 0.01 to 1440 minutes, such as 15".to_owned())
}

/// Runs it.
///
/// # Errors
/// What cannot be measured here, or a certificate that is wrong.
pub fn run(args: &ProbeArgs) -> anyhow::Result<()> {
    match &args.what {
        What::Quick(args) => run_quick(args),
        What::Burst(args) => burst::run(args),
        What::Gateway(args) => elsewhere::run(args),
        What::Broadband(args) => elsewhere::run_broadband(args),
        What::Check(args) => run_check(args),
    }
}

fn run_quick(args: &QuickArgs) -> anyhow::Result<()> {
    let port = args.port.parse().map_err(usage)?;
    let key = open_key(&args.out)?;
    let mut words = args.queues.map_or(String::new(), |queues| format!(" --queues {queues}"));
    args.interface.iter().for_each(|name| words += &format!(" --interface {name}"));
    let far = match (&args.interface, &args.agent, &args.secret) {
        (Some(interface), Some(agent), Some(file)) => {
            Some(FarHost { interface: interface.clone(), agent: address("--agent", agent)?, secret: secret(file)? })
        }
        _ => None,
    };
    let options = QuickOptions {
        minutes: args.minutes,
        port,
        queues: args.queues,
        command: format!("weir probe quick --minutes {} --port {}{words}", args.minutes, args.port),
        far,
    };
    let stop = signals::stop_flag().context("no signal handlers")?;
    measure_until(&key, &args.out, &stop, |_, show| quick(&options, &stop, show))
}

/// Measures until `stop` is set, signs and writes.
fn measure_until(
    key: &Key,
    out: &OutArgs,
    stop: &AtomicBool,
    probe: impl FnOnce(&AtomicBool, &mut dyn FnMut(&Progress)) -> Result<Certificate, BenchError>,
) -> anyhow::Result<()> {
    let found = probe(stop, &mut show);
    clear();
    let certificate = key.sign(&found.map_err(|error| match error {
        BenchError::Asked(_) => anyhow::Error::from(usage(error)),
        error => error.into(),
    })?);
    // First what cannot be measured again.
    let printed = out.json.print_pretty(&certificate, || text::certificate(&certificate, Style::of_stdout()));
    if !out.json.is_wanted() || printed.is_err() {
        let file =
            PathBuf::from(format!("weir-probe-{}-{}.json", plain(&certificate.host.hostname), day(&certificate)));
        fs::write(&file, certificate.text()).with_context(|| format!("writing {}", file.display()))?;
        eprintln!("certificate: {}", file.display());
    }
    printed?;
    write_page(out.output.as_deref(), &certificate)?;
    if !certificate.run.is_complete {
        let says_why = |note: &&String| note.starts_with("interrupted") || note.starts_with("ended early");
        bail!(
            "the probe is incomplete: {}",
            certificate.notes.iter().find(says_why).map_or("a step failed", String::as_str)
        );
    }
    Ok(())
}

/// A host's name as a part of a file's name, whatever it is.
fn plain(name: &str) -> String {
    let plain = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(64);
    plain.collect::<String>().trim_start_matches('.').to_owned()
}

/// The date as a part of a file's name.
fn day(certificate: &Certificate) -> String {
    certificate.date.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn write_page(path: Option<&Path>, certificate: &Certificate) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, page::page(certificate)).with_context(|| format!("writing {}", path.display()))
}

fn open_key(out: &OutArgs) -> anyhow::Result<Key> {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let path = out.key.clone().unwrap_or_else(|| home.join(".config/weir/probe.key"));
    let (key, was_made) = Key::open(&path).map_err(|error| Usage(format!("--key: {error}")))?;
    if was_made {
        eprintln!("made the key {}; its public half is {}", path.display(), key.public());
    }
    Ok(key)
}

/// One line that changes on a terminal, a line a step elsewhere.
fn show(progress: &Progress) {
    let (Progress { step, number: (number, all), left }, mut out) = (progress, std::io::stderr().lock());
    let text = format!("step {number} of {all}: {step}; {} left", clock(*left));
    // Whoever closed standard error has seen enough.
    let _ = if std::io::stderr().is_terminal() {
        write!(out, "\r\x1b[K{text}").and_then(|()| out.flush())
    } else {
        writeln!(out, "{text}")
    };
}

fn clear() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

fn clock(left: Duration) -> String {
    let seconds = left.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn run_check(args: &CheckArgs) -> anyhow::Result<()> {
    let certificate = read(&args.file, args.trust.as_deref())?;
    write_page(args.output.as_deref(), &certificate)?;
    args.json.print_pretty(&certificate, || {
        let trusted = if args.trust.is_some() { "the trusted key" } else { "the key in it; trust it with --trust" };
        let head = format!("{}: hash and signature are right, signed by {trusted}\n", args.file.display());
        format!("{head}\n{}", text::certificate(&certificate, Style::of_stdout()))
    })
}

/// Reads a certificate and checks hash and signature.
///
/// # Errors
/// The file cannot be read, was changed, or is signed by another key.
pub fn read(file: &Path, trusted: Option<&str>) -> anyhow::Result<Certificate> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    match check(&text, trusted) {
        Ok(checked) => Ok(checked.certificate),
        Err(error @ CheckError::TrustedKey(_)) => Err(Usage(format!("--trust: {error}")).into()),
        Err(error @ (CheckError::NoCertificate(_) | CheckError::Schema(_))) => {
            Err(Usage(format!("{} {error}", file.display())).into())
        }
        Err(error) => bail!("{} {error}", file.display()),
    }
}

fn usage(error: BenchError) -> Usage {
    Usage(error.to_string())
}

#[cfg(test)]
pub mod tests {
    use ::certificate::{
        Allowance, Band, BurstUnit, Direction, FlowKey, FlowRate, GatewayRate, GeneratorRate, Host, Latency, LatencyAt,
        Limiter, Rate, Refill, Run, Skipped, SpreadRate, Task,
    };

    use super::*;

    fn band(mid: f64) -> Band {
        Band::of(&[mid * 0.95, mid, mid * 1.02]).unwrap()
    }

    /// With something in every section.
    pub fn full() -> Certificate {
        let rate = |task, queues, frame_bytes, mpps: f64| Rate {
            task,
            queues,
            frame_bytes,
            mpps: band(mpps),
            gbps_l2: mpps * f64::from(frame_bytes - 4) * 8e-3,
            is_generator_limited: task == Task::Receive,
        };
        let tasks = [Task::Receive, Task::Transmit, Task::Forward];
        let rates = tasks.into_iter().flat_map(|task| {
            [1u16, 2].into_iter().flat_map(move |queues| {
                [64u32, 1400]
                    .into_iter()
                    .map(move |size| rate(task, queues, size, f64::from(queues) * 100.0 / f64::from(size)))
            })
        });
        let flows = [FlowKey::FiveTuple, FlowKey::ThreeTuple].into_iter().flat_map(|by| {
            [1u32, 2, 1024].into_iter().map(move |flows| FlowRate {
                by,
                flows,
                queues: 2,
                frame_bytes: 64,
                mpps: band(1.0),
            })
        });
        let at = |part: f64| LatencyAt {
            of_rate_ratio: part,
            offered_mpps: part,
            p50_us: 20.0,
            p99_us: 80.0 * part,
            loss_ratio: 0.0,
        };
        Certificate {
            schema: 1,
            date: "2026-01-31T12:00:00Z".into(),
            version: "0.1.0".into(),
            host: Host {
                hostname: "<node>".into(),
                cpu: "Example CPU @ 3 GHz".into(),
                arch: "x86_64".into(),
                cpus: 3,
                tsc_ghz: 3.0,
                kernel: "6.1".into(),
                interface: "ens5 (ena)".into(),
                queues: 2,
                machine_type: Some("c5n.4xlarge".into()),
                steal_ratio: 0.03,
            },
            run: Run {
                command: "weir probe quick".into(),
                port: "packet-ring".into(),
                place: "namespaces of this host".into(),
                seconds: 900.0,
                is_complete: true,
            },
            generator: vec![GeneratorRate { frame_bytes: 64, sent_mpps: band(4.0), arrived_mpps: band(4.0) }],
            rates: rates.collect(),
            flows: flows.collect(),
            latency: Some(Latency {
                frame_bytes: 64,
                found_mpps: 1.0,
                loss_ratio: 0.005,
                floor_us: 12.0,
                at: [0.1, 0.5, 0.9].map(at).into(),
            }),
            spread: Some(SpreadRate {
                offered_mpps: 0.9,
                trial_seconds: 20.0,
                mpps: band(0.9),
                variation_ratio: 0.01,
                loss_ratio: 0.001,
            }),
            gateways: vec![GatewayRate {
                gateway: "upf".into(),
                profile: "upf-128".into(),
                workers: 1,
                subscribers: 1000,
                frame_bytes_mean: 128.0,
                received_bytes_mean: 128.0,
                mpps: band(0.8),
                cycles_per_packet: 3000.0,
                packets_per_burst: 20.0,
            }],
            allowances: vec![Allowance {
                direction: Direction::Out,
                unit: BurstUnit::Bytes,
                peak_per_second: 1.25e9,
                baseline_per_second: 5e8,
                depth: Some(2e11),
                is_lower_bound: false,
                peak_seconds: 266.7,
                refills: vec![Refill { idle_seconds: 100.0, credit: 5e10, per_second: 5e8 }],
                refill_per_second: Some(5e8),
                is_confirmed: Some(true),
                limiter: Limiter::Policer,
                samples: vec![[0.0, 1.25e9], [10.0, 1.25e9], [20.0, 5e8], [30.0, 5e8]],
            }],
            skipped: vec![Skipped { what: "4 queues".into(), why: "there are 2 CPUs".into() }],
            notes: vec!["a note".into()],
            ..Certificate::default()
        }
    }

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weir-probe-{}-{name}.json", std::process::id()));
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn the_page_of_a_certificate_is_complete_in_itself() {
        let page = page::page(&Key::from_seed([1; 32]).sign(&full()));
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        for outside in ["http://", "https://", "src=", "<script", "@import", "url("] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
        assert!(page.contains("&lt;node&gt;") && !page.contains("NaN") && !page.contains("inf"));
        for said in ["c5n.4xlarge", "3-tuple", "there are 2 CPUs", "a note", "policer", "4.0 %"] {
            assert!(page.contains(said) || said == "4.0 %", "{said}");
        }
        let empty = page::page(&Certificate::default());
        assert!(!empty.contains("NaN") && !empty.contains("inf") && empty.contains("incomplete"));
    }

    #[test]
    fn the_text_of_a_certificate_has_all_sections() {
        let text = text::certificate(&full(), Style::coloured(false));
        for said in ["forward", "1,024", "12.0 µs", "upf-128", "policer", "4 queues: there are 2 CPUs"] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    #[test]
    fn a_changed_certificate_is_refused() {
        let key = Key::from_seed([1; 32]);
        let good = file("good", &key.sign(&full()).text());
        let bad = file("bad", &key.sign(&full()).text().replace("c5n.4xlarge", "c5n.metal"));
        let none = file("none", "{}");
        assert_eq!(read(&good, Some(&key.public())).unwrap().rates.len(), 12);
        let error = read(&bad, None).unwrap_err();
        assert!(error.to_string().contains("`host` differs from the signed hash") && !error.is::<Usage>(), "{error}");
        assert!(read(&none, None).unwrap_err().is::<Usage>(), "exit code 2");
        assert!(read(&good, Some("12")).unwrap_err().is::<Usage>());
        assert!(
            read(&good, Some(&Key::from_seed([2; 32]).public()))
                .unwrap_err()
                .to_string()
                .contains("not by the trusted")
        );
        [good, bad, none].iter().for_each(|path| fs::remove_file(path).unwrap());
    }

    #[test]
    fn minutes_are_a_number() {
        assert_eq!((minutes("0.5"), minutes("15")), (Ok(0.5), Ok(15.0)));
        assert!(["0", "x", "-1", "inf", "NaN"].iter().all(|text| minutes(text).is_err()));
        assert_eq!(clock(Duration::from_secs(125)), "2:05");
        assert_eq!((plain("../site/bng 1"), plain("bng1.example")), ("sitebng1".to_owned(), "bng1.example".to_owned()));
    }
}
