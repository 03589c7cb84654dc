//! What the planner knows: the tables that come with weir, and those of a folder over them.
//!
//! | file of the folder | rows |
//! |---|---|
//! | `machines.tsv`, `prices.tsv`, `measurements.tsv`, `sources.tsv` | the four tables; rows replace those of the same key |
//! | `servers.toml`, `cards.toml`, `sites.toml` | sections replace those of the same name |

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use capacity::card::{CARDS, Card, Cards};
use capacity::catalogue::{Catalogue, MachineRow, MeasurementRow, PriceKind, PriceRow, Role, SourceRow};
use capacity::onprem::{SERVERS, Server, Servers};
use capacity::site::{SITES, Site, Sites};
use capacity::tables::{Row, TableError};
use clap::{Args, ValueEnum};
use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::load::{LoadError, Text, Wrong};
use gateway::tables::{Style, Table};
use schemars::JsonSchema;
use serde::Serialize;

use super::certified::{Certified, is_known};

const TABLES: [&str; 4] = [MachineRow::FILE, PriceRow::FILE, MeasurementRow::FILE, SourceRow::FILE];
const LISTS: [(&str, &str); 3] = [("servers.toml", SERVERS), ("cards.toml", CARDS), ("sites.toml", SITES)];

/// `weir plan catalogue`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir plan catalogue                          how many types, prices, measurements; servers, cards
  weir plan catalogue prices --json            one table, for programs
  weir plan catalogue --to my-catalogue        write everything to a folder, to be edited, then
  weir plan PLAN.toml --catalogue my-catalogue plan with it
  weir plan --from x.json --append-to my-catalogue
                                               append what weir bench measured to its measurements

Rows of a folder replace the built-in ones of the same key; files that a folder lacks stay built in.")]
pub struct CatalogueArgs {
    /// Only this table.
    pub table: Option<Which>,
    /// A folder of tables over those that come with weir.
    #[arg(long, value_name = "DIR")]
    pub catalogue: Option<PathBuf>,
    /// Write all files to this folder, which has none of them.
    #[arg(long, value_name = "DIR", conflicts_with = "table")]
    pub to: Option<PathBuf>,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// One of the four tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    Machines,
    Prices,
    Measurements,
    Sources,
}

/// All that is known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Everything {
    /// Machine types of clouds.
    pub machines: Vec<MachineRow>,
    /// Their prices on demand.
    pub prices: Vec<PriceRow>,
    /// Packet rates, and what gateways carried.
    pub measurements: Vec<MeasurementRow>,
    /// Where rows are from.
    pub sources: Vec<SourceRow>,
    /// Servers on premise, with their cards.
    pub servers: Vec<Server>,
    /// Network cards.
    pub cards: Vec<Card>,
    /// Kinds of sites.
    pub sites: Vec<Site>,
}

/// The tables and lists to plan with.
pub struct Shelf {
    pub catalogue: Catalogue,
    /// Without the plan's own, and without their cards.
    pub servers: Vec<Server>,
    pub cards: Vec<Card>,
    pub sites: Vec<Site>,
}

impl Shelf {
    /// Reads a folder over what comes with weir.
    ///
    /// # Errors
    /// A folder without any of the files, a file that is none of them, a cell or key that is wrong.
    pub fn read(folder: Option<&Path>) -> Result<Self, LoadError> {
        let built_in = |name: &str, text: &str| Text { name: name.to_owned(), text: text.to_owned() };
        let mut shelf = Self {
            catalogue: Catalogue::built_in().clone(),
            servers: built_in("servers.toml", SERVERS).parse::<Servers>()?.server,
            cards: built_in("cards.toml", CARDS).parse::<Cards>()?.card,
            sites: built_in("sites.toml", SITES).parse::<Sites>()?.site,
        };
        let Some(folder) = folder else { return Ok(shelf) };
        check_names(folder)?;
        let own = own_tables(folder)?;
        shelf.catalogue.merge(own);
        let text =
            |name: &str| Some(folder.join(name)).filter(|path| path.exists()).map(|path| Text::read(&path)).transpose();
        if let Some(text) = text("cards.toml")? {
            over(&mut shelf.cards, text.parse::<Cards>()?.card, |card| &card.name);
        }
        if let Some(text) = text("servers.toml")? {
            let mut servers = text.parse::<Servers>()?.server;
            capacity::card::equip(&mut servers, &shelf.cards)
                .map_err(|wrong| text.at(&wrong.path, wrong.what, wrong.help))?;
            over(&mut shelf.servers, servers, |server| &server.name);
        }
        if let Some(text) = text("sites.toml")? {
            over(&mut shelf.sites, text.parse::<Sites>()?.site, |site| &site.name);
        }
        Ok(shelf)
    }

    /// Puts cards into servers that have none of them yet, and checks what rows of tables name.
    ///
    /// # Errors
    /// A server that names a card that is not there; a row that names a machine or source that is not there.
    pub fn finish(&mut self) -> Result<(), LoadError> {
        let text = Text { name: "servers.toml".to_owned(), text: SERVERS.to_owned() };
        capacity::card::equip(&mut self.servers, &self.cards)
            .map_err(|wrong| text.at(&wrong.path, wrong.what, wrong.help))?;
        let names = self.servers.iter().map(|server| server.name.as_str());
        self.catalogue.check(names).map_err(|error| at_cell(&error))
    }

    fn everything(&self) -> Everything {
        let rows = self.catalogue.rows();
        Everything {
            machines: rows.machines.into_iter().cloned().collect(),
            prices: rows.prices.into_iter().cloned().collect(),
            measurements: rows.measurements.into_iter().cloned().collect(),
            sources: rows.sources.into_iter().cloned().collect(),
            servers: self.servers.clone(),
            cards: self.cards.clone(),
            sites: self.sites.clone(),
        }
    }
}

/// Later entries replace earlier ones of the same name.
pub fn over<T>(under: &mut Vec<T>, more: Vec<T>, name: impl Fn(&T) -> &String) {
    under.retain(|one| more.iter().all(|other| name(other) != name(one)));
    under.extend(more);
}

/// An error of a table as the place in its text.
fn at_cell(error: &TableError) -> LoadError {
    let text = Text::read(Path::new(&error.file));
    let text = text.unwrap_or_else(|_| Text { name: error.file.clone(), text: String::new() });
    let start: usize = text.text.split_inclusive('\n').take(error.line.saturating_sub(1)).map(str::len).sum();
    let line = text.text[start.min(text.text.len())..].lines().next().unwrap_or_default();
    let cells = line.split('\t').scan(start, |at, cell| {
        let begin = *at;
        *at += cell.len() + 1;
        Some(begin..begin + cell.len())
    });
    let place = error.column.as_ref().map(|(place, _)| *place).filter(|place| *place > 0);
    let cell = place.and_then(|place| cells.into_iter().nth(place - 1));
    let span = cell.filter(|cell| !cell.is_empty()).unwrap_or(start..start + line.len());
    let key = error.column.as_ref().map_or_else(String::new, |(_, name)| name.clone());
    LoadError::Wrong(Box::new(Wrong {
        source: text,
        key,
        span,
        what: error.what.clone(),
        help: Some(error.help.clone()),
    }))
}

/// The tables of a folder alone.
fn own_tables(folder: &Path) -> Result<Catalogue, LoadError> {
    enum Failed {
        Load(LoadError),
        Table(TableError),
    }
    impl From<TableError> for Failed {
        fn from(error: TableError) -> Self {
            Self::Table(error)
        }
    }
    let read = Catalogue::read(&|file| {
        let path = folder.join(file);
        if !path.exists() {
            return Ok(None);
        }
        let text = Text::read(&path).map_err(Failed::Load)?;
        Ok(Some((text.name, text.text)))
    });
    read.map_err(|failed| match failed {
        Failed::Load(error) => error,
        Failed::Table(error) => at_cell(&error),
    })
}

/// A misspelt file would be ignored, so every table and list of the folder must be one that is read.
fn check_names(folder: &Path) -> Result<(), LoadError> {
    let wrong = |what: String| {
        let known = TABLES.iter().copied().chain(LISTS.map(|(name, _)| name)).collect::<Vec<_>>().join(", ");
        let source = Text { name: folder.display().to_string(), text: String::new() };
        let help = Some(format!("a folder with some of {known}; weir plan catalogue --to DIR writes them"));
        LoadError::Wrong(Box::new(Wrong { source, key: String::new(), span: 0..0, what, help }))
    };
    let entries = std::fs::read_dir(folder).map_err(|source| LoadError::Read { path: folder.to_owned(), source })?;
    let names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let known = |name: &&String| TABLES.contains(&name.as_str()) || LISTS.iter().any(|(list, _)| list == name);
    let ours = |name: &&String| name.ends_with(".tsv") || name.ends_with(".toml");
    if let Some(other) = names.iter().filter(ours).find(|name| !known(name)) {
        return Err(wrong(format!("{other} is no table")));
    }
    if names.iter().any(|name| known(&name)) { Ok(()) } else { Err(wrong("no table is in it".to_owned())) }
}

/// Runs `weir plan catalogue`.
///
/// # Errors
/// A folder that cannot be read or is wrong, a file that is there already, an output that cannot be written.
pub fn run(args: &CatalogueArgs) -> anyhow::Result<()> {
    let mut shelf = Shelf::read(args.catalogue.as_deref())?;
    shelf.finish()?;
    if let Some(folder) = &args.to {
        return export(&shelf.catalogue, args.catalogue.as_deref(), folder);
    }
    let rows = shelf.everything();
    let files = || shelf.catalogue.files();
    match args.table {
        Some(Which::Machines) => args.json.print_pretty(&rows.machines, || files()[0].1.clone()),
        Some(Which::Prices) => args.json.print_pretty(&rows.prices, || files()[1].1.clone()),
        Some(Which::Measurements) => args.json.print_pretty(&rows.measurements, || files()[2].1.clone()),
        Some(Which::Sources) => args.json.print_pretty(&rows.sources, || files()[3].1.clone()),
        None => args.json.print_pretty(&rows, || text(&shelf, Style::of_stdout())),
    }
}

/// Writes all files to a folder. Lists are written as they are: those of `from`, otherwise the built-in ones.
fn export(catalogue: &Catalogue, from: Option<&Path>, folder: &Path) -> anyhow::Result<()> {
    let mut files: Vec<(&str, String)> = catalogue.files().into_iter().collect();
    for (name, built_in) in LISTS {
        let own = from.map(|from| from.join(name)).filter(|path| path.exists());
        let text = own.map(std::fs::read_to_string).transpose().with_context(|| format!("reading {name}"))?;
        files.push((name, text.unwrap_or_else(|| built_in.to_owned())));
    }
    if let Some((name, _)) = files.iter().find(|(name, _)| folder.join(name).exists()) {
        let there = folder.join(name);
        return Err(Usage(format!("{} is there already; name a folder without it", there.display())).into());
    }
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Appends measurements to a folder's table, which is made if it is not there. Those of the same key are replaced. Certified
/// machines that no table has become sections of its `servers.toml`.
///
/// # Errors
/// A folder whose tables are wrong or cannot be written; a machine that is not known and has no clock.
pub fn append(
    rows: Vec<MeasurementRow>,
    sources: Vec<SourceRow>,
    certified: &[Certified],
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    use capacity::tables::{Entry, merge, write};
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut own = own_tables(folder)?;
    add_servers(certified, folder)?;
    let entry = |row| Entry { row, file: folder.join(MeasurementRow::FILE).display().to_string().into(), line: 0 };
    merge(&mut own.measurements, rows.into_iter().map(entry).collect());
    let used = |source: &SourceRow| own.measurements.iter().any(|entry| entry.row.source == source.source);
    let is_new = |source: &SourceRow| !own.sources.iter().any(|entry| entry.row.source == source.source);
    let new: Vec<SourceRow> = sources.into_iter().filter(|source| used(source) && is_new(source)).collect();
    let file = folder.join(SourceRow::FILE).display().to_string();
    own.sources.extend(new.into_iter().map(|row| Entry { row, file: file.clone().into(), line: 0 }));
    let files = TABLES.into_iter().chain(LISTS.map(|(name, _)| name));
    let begun = files.into_iter().any(|name| folder.join(name).exists());
    let mut all = Shelf::read(begun.then_some(folder))?;
    all.catalogue.merge(own.clone());
    all.finish()?;
    for (name, text) in [(MeasurementRow::FILE, write(&own.measurements)), (SourceRow::FILE, write(&own.sources))] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(folder.join(MeasurementRow::FILE))
}

/// Writes a section for each certified machine that no table has.
fn add_servers(certified: &[Certified], folder: &Path) -> anyhow::Result<()> {
    let files = TABLES.into_iter().chain(LISTS.map(|(name, _)| name));
    let begun = files.into_iter().any(|name| folder.join(name).exists());
    let shelf = Shelf::read(begun.then_some(folder))?;
    let path = folder.join("servers.toml");
    let mut seen = std::collections::BTreeSet::new();
    let is_new = |one: &&Certified| !is_known(&one.machine, &shelf.catalogue, &shelf.servers);
    for machine in certified.iter().filter(is_new).filter(|one| seen.insert(one.machine.clone())) {
        let text = if path.exists() { std::fs::read_to_string(&path)? + "\n" } else { String::new() };
        std::fs::write(&path, text + &machine.section()).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// What is known, counted.
fn text(shelf: &Shelf, style: Style) -> String {
    let all = shelf.catalogue.rows();
    let mut table = Table::new(&["provider", ">types", ">with a price", ">regions", ">host fees", ">limits measured"]);
    let mut providers: Vec<&str> = all.machines.iter().map(|row| row.provider.as_str()).collect();
    providers.sort_unstable();
    providers.dedup();
    for provider in providers {
        let of: Vec<&str> =
            all.machines.iter().filter(|row| row.provider == provider).map(|row| row.machine.as_str()).collect();
        let priced = |name: &str| all.prices.iter().any(|row| row.machine == name);
        let measured = |name: &str| all.measurements.iter().any(|row| row.machine == name && row.role == Role::Limit);
        let hosts = all.prices.iter().filter(|row| row.kind == PriceKind::Host && row.machine.starts_with(provider));
        table.row([
            provider.to_owned(),
            of.len().to_string(),
            of.iter().filter(|name| priced(name)).count().to_string(),
            shelf.catalogue.regions(provider).len().to_string(),
            hosts.count().to_string(),
            of.iter().filter(|name| measured(name)).count().to_string(),
        ]);
    }
    let mut out = table.render(style);
    let mut servers = Table::new(&["server", ">cores", ">ports", ">idle W", ">at most W", "watts"]);
    for server in &shelf.servers {
        let watts = |known: Option<&capacity::known::Known<capacity::quantity::Power>>| match known {
            Some(known) if known.low < known.high => format!("{:.0} … {:.0}", known.low.0, known.high.0),
            Some(known) => format!("{:.0}", known.value.0),
            None => "–".to_owned(),
        };
        let ports = server.ports.map_or_else(|| "–".to_owned(), |ports| ports.to_string());
        let from = server.power.as_ref().map_or_else(|| "unknown".to_owned(), |power| power.from.to_string());
        let cores = server.cores.to_string();
        servers.row([
            server.name.clone(),
            cores,
            ports,
            watts(server.idle.as_ref()),
            watts(server.power.as_ref()),
            from,
        ]);
    }
    out.push('\n');
    out += &servers.render(style);
    let mut sources = Table::new(&["source", "date", "where"]);
    for row in all.sources {
        let date = row.date.as_ref().map_or_else(String::new, ToString::to_string);
        sources.row([row.source.clone(), date, row.reference.clone()]);
    }
    out.push('\n');
    out += &sources.render(style);
    let (cards, sites) = (shelf.cards.len(), shelf.sites.len());
    let points = all.measurements.iter().filter(|row| row.role == Role::Point).count();
    let _ = writeln!(out, "\n  {cards} network cards, {sites} kinds of sites, {points} points measured by weir bench");
    out
}
