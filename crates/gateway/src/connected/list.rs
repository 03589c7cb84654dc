//! Pages, and the entries with the most traffic.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use super::{
    ASK, Connected, ConnectedPage, ConnectedRequest, ConnectedView, Filter, LIMIT, LOOK, MOST, PAGE, Top, Used,
};

/// Between two locks of control: the control thread comes in.
const PAUSE: Duration = Duration::from_micros(20);
/// Entries whose rates are measured at most: what is remembered of each is 24 bytes.
const RATED: usize = 4_000_000;
/// Time of a request for rates, beside the measurement: all entries are read twice.
const ALL: Duration = Duration::from_secs(60);

/// The page that is asked for.
///
/// # Errors
/// The filter has a field that these entries do not have, or a worker does not answer; a sentence.
pub fn answer(of: &dyn Connected, request: &ConnectedRequest) -> Result<ConnectedPage, String> {
    let known = of.fields();
    if let Some(field) = request.filter.given().into_iter().find(|field| !known.contains(field)) {
        return Err(format!("{} have no {field}; allowed: {}", of.kind(), known.join(", ")));
    }
    let limit = if request.limit == 0 { PAGE } else { request.limit.min(MOST) };
    let (entries, next) = match request.top {
        None => page(of, &request.filter, request.after, limit)?,
        Some(top) => {
            let over = if request.over_seconds > 0.0 { request.over_seconds.clamp(0.1, 10.0) } else { 1.0 };
            (most(of, &request.filter, (top, Duration::from_secs_f64(over)), limit)?, None)
        }
    };
    let page = ConnectedPage { kind: of.kind().to_owned(), total: of.total(), entries, next, ..Default::default() };
    Ok(ConnectedPage { workers: of.workers()?, control: of.control(), ..page })
}

/// Numbers that may match, from `first` on.
fn numbers(of: &dyn Connected, filter: &Filter, first: u32) -> Vec<u32> {
    match of.indexed(filter) {
        Some(found) => found.into_iter().filter(|number| *number >= first).collect(),
        None => (first..of.numbers()).collect(),
    }
}

/// Entries from a number on, and the number at which the next page goes on.
fn page(
    of: &dyn Connected,
    filter: &Filter,
    after: Option<u32>,
    limit: usize,
) -> Result<(Vec<ConnectedView>, Option<u32>), String> {
    let until = Instant::now() + LIMIT;
    let candidates = numbers(of, filter, after.map_or(0, |after| after.saturating_add(1)));
    let (mut found, mut next) = (Vec::new(), None);
    for (n, few) in candidates.chunks(LOOK).enumerate() {
        let mut entries = of.entries(few);
        if filter.mac.is_some() {
            // Workers may have learnt it.
            count(of, &mut entries)?;
        }
        found.extend(entries.into_iter().filter(|entry| filter.matches(entry)));
        let is_last = (n + 1) * LOOK >= candidates.len();
        if found.len() > limit {
            found.truncate(limit);
            next = found.last().map(|entry| entry.number);
            break;
        }
        if !is_last && Instant::now() > until {
            next = few.last().copied();
            break;
        }
        std::thread::sleep(PAUSE);
    }
    count(of, &mut found)?;
    Ok((found, next))
}

/// Adds what entries have carried.
fn count(of: &dyn Connected, entries: &mut [ConnectedView]) -> Result<(), String> {
    for few in entries.chunks_mut(ASK) {
        let numbers: Vec<u32> = few.iter().map(|entry| entry.number).collect();
        let used = of.used(&numbers)?;
        few.iter_mut().zip(used).for_each(|(entry, used)| entry.set_used(used.unwrap_or_default()));
    }
    Ok(())
}

/// What all of `numbers` have carried, and when it was read; `see` is shown each.
fn read_all(
    of: &dyn Connected,
    numbers: &[u32],
    until: Instant,
    mut see: impl FnMut(u32, Used, Instant),
) -> Result<(), String> {
    for few in numbers.chunks(ASK) {
        let used = of.used(few)?;
        let now = Instant::now();
        few.iter().zip(used).for_each(|(number, used)| used.into_iter().for_each(|used| see(*number, used, now)));
        if now > until {
            return Err("there are too many entries to read within a minute; a filter makes them fewer".to_owned());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// The entries with the most traffic, most first.
fn most(
    of: &dyn Connected,
    filter: &Filter,
    (top, over): (Top, Duration),
    limit: usize,
) -> Result<Vec<ConnectedView>, String> {
    let begun = Instant::now();
    let until = begun + ALL + over;
    let mut wanted = numbers(of, filter, 0);
    if !filter.given().is_empty() {
        let mut matching = Vec::new();
        for few in wanted.chunks(LOOK) {
            matching.extend(of.entries(few).iter().filter(|entry| filter.matches(entry)).map(|entry| entry.number));
            std::thread::sleep(PAUSE);
        }
        wanted = matching;
    }
    let mut best = Best::new(limit);
    let mut rates: HashMap<u32, [f64; 2]> = HashMap::new();
    match top {
        Top::Bytes => read_all(of, &wanted, until, |number, used, _| {
            best.offer(used.bytes(), number);
        })?,
        Top::Rate => {
            wanted.truncate(RATED);
            let mut before: HashMap<u32, (Used, Instant)> = HashMap::with_capacity(wanted.len());
            read_all(of, &wanted, until, |number, used, at| {
                before.insert(number, (used, at));
            })?;
            std::thread::sleep(over.saturating_sub(begun.elapsed()));
            read_all(of, &wanted, until, |number, used, at| {
                let Some((old, then)) = before.get(&number) else { return };
                let seconds = at.duration_since(*then).as_secs_f64().max(1e-3);
                let rate = |now: u64, old: u64| now.saturating_sub(old) as f64 * 8.0 / seconds;
                let both = [rate(used.up_bytes, old.up_bytes), rate(used.down_bytes, old.down_bytes)];
                if best.offer((both[0] + both[1]) as u64, number) {
                    rates.insert(number, both);
                }
            })?;
        }
    }
    let chosen = best.taken();
    let mut entries: Vec<ConnectedView> = Vec::new();
    for few in chosen.chunks(LOOK) {
        entries.extend(of.entries(few));
    }
    count(of, &mut entries)?;
    let place: HashMap<u32, usize> = chosen.iter().enumerate().map(|(n, number)| (*number, n)).collect();
    entries.sort_by_key(|entry| place.get(&entry.number).copied());
    for entry in &mut entries {
        let [up, down] = rates.get(&entry.number).map_or([None; 2], |both| both.map(Some));
        (entry.up_bps, entry.down_bps) = (up, down);
    }
    Ok(entries)
}

/// The highest of many, as many as there is room for.
struct Best {
    limit: usize,
    /// The lowest on top.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Best {
    fn new(limit: usize) -> Self {
        Self { limit, heap: BinaryHeap::with_capacity(limit + 1) }
    }

    /// Whether it is among the highest so far. What never carried anything is not.
    fn offer(&mut self, value: u64, number: u32) -> bool {
        let is_low = self.heap.len() >= self.limit && self.heap.peek().is_some_and(|Reverse(low)| low.0 >= value);
        if value == 0 || is_low {
            return false;
        }
        self.heap.push(Reverse((value, number)));
        if self.heap.len() > self.limit {
            self.heap.pop();
        }
        true
    }

    /// Their numbers, highest first.
    fn taken(self) -> Vec<u32> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse((_, number))| number).collect()
    }
}
