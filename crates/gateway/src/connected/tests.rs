//! Pages and searches over many entries, and that work is bounded.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::*;
use crate::cli::Keys;
use crate::tables::Style;

/// Entries 0 to `count`, without every seventh; entry n has carried n bytes up at each reading.
struct Many {
    count: u32,
    locks: AtomicUsize,
    readings: AtomicU64,
    longest: Mutex<usize>,
}

impl Many {
    fn new(count: u32) -> Self {
        Self { count, locks: AtomicUsize::new(0), readings: AtomicU64::new(0), longest: Mutex::new(0) }
    }

    fn note(&self, numbers: &[u32]) {
        self.locks.fetch_add(1, Ordering::Relaxed);
        let mut longest = self.longest.lock().unwrap();
        *longest = numbers.len().max(*longest);
    }
}

fn is_there(number: u32) -> bool {
    number % 7 != 3
}

impl Connected for Many {
    fn kind(&self) -> &'static str {
        "sessions"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["imsi", "address", "teid", "name"]
    }

    fn total(&self) -> u64 {
        (0..self.count).filter(|number| is_there(*number)).count() as u64
    }

    fn numbers(&self) -> u32 {
        self.count
    }

    fn indexed(&self, filter: &Filter) -> Option<Vec<u32>> {
        filter.teid.map(|teid| vec![teid])
    }

    fn entries(&self, numbers: &[u32]) -> Vec<ConnectedView> {
        self.note(numbers);
        let entry = |number: &u32| ConnectedView {
            number: *number,
            name: Some(format!("line {number}")),
            imsi: Some(format!("{number:015}")),
            addresses: vec![
                std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string(),
                format!("2001:db8:0:{number:x}::/64"),
            ],
            teids: vec![*number],
            ..ConnectedView::default()
        };
        numbers.iter().filter(|number| is_there(**number)).map(entry).collect()
    }

    fn used(&self, numbers: &[u32]) -> Result<Vec<Option<Used>>, String> {
        self.note(numbers);
        let reading = self.readings.fetch_add(1, Ordering::Relaxed);
        let bytes = |number: u32| u64::from(number) * 1000 * (reading / u64::from(self.count.div_ceil(ASK as u32)) + 1);
        let used = |number: &u32| is_there(*number).then(|| Used { up_bytes: bytes(*number), ..Used::default() });
        Ok(numbers.iter().map(used).collect())
    }
}

fn request(options: &[(&'static str, &str)]) -> ConnectedRequest {
    let keys = options.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    super::request(&Keys(keys), Some(0.1)).unwrap()
}

fn numbers(page: &ConnectedPage) -> Vec<u32> {
    page.entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn pages_follow_each_other_without_gaps() {
    let many = Many::new(500);
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = answer(&many, &ConnectedRequest { after, limit: 100, ..request(&[]) }).unwrap();
        all.extend(numbers(&page));
        after = page.next;
        if after.is_none() {
            break;
        }
        assert_eq!(page.entries.len(), 100);
    }
    assert_eq!(all, (0..500).filter(|number| is_there(*number)).collect::<Vec<_>>());
}

#[test]
fn a_page_of_many_costs_little() {
    let many = Many::new(256_000);
    let page = answer(&many, &request(&[])).unwrap();
    assert_eq!((page.entries.len(), page.next), (PAGE, Some(57)));
    assert!(many.locks.load(Ordering::Relaxed) <= 3);
    let page = answer(&many, &request(&[("teid", "0x3e000")])).unwrap();
    assert_eq!((numbers(&page), page.next), (vec![0x3e000], None));
    assert!(many.locks.load(Ordering::Relaxed) <= 6);
}

#[test]
fn searches_through_many_hold_no_lock_for_long() {
    let many = Many::new(256_000);
    let mut asked = request(&[("imsi", "imsi-000000000255998")]);
    let found = loop {
        let page = answer(&many, &asked).unwrap();
        match page.next {
            Some(next) if page.entries.is_empty() => asked.after = Some(next),
            _ => break page,
        }
    };
    assert_eq!(numbers(&found), [255_998]);
    assert!(*many.longest.lock().unwrap() <= LOOK);
}

#[test]
fn the_most_of_many_are_found() {
    let many = Many::new(256_000);
    let page = answer(&many, &request(&[("top", "bytes"), ("limit", "3")])).unwrap();
    assert_eq!(numbers(&page), [255_999, 255_998, 255_997]);
    assert!(*many.longest.lock().unwrap() <= ASK);
    let many = Many::new(1000);
    let page = answer(&many, &request(&[("top", "rate"), ("limit", "2")])).unwrap();
    assert_eq!(numbers(&page), [999, 998]);
    assert!(page.entries[0].up_bps.unwrap() > 0.0, "{page:?}");
}

#[test]
fn filters_choose_by_every_field() {
    let many = Many::new(100);
    for (option, value) in
        [("ue", "10.0.0.9"), ("ue", "2001:db8:0:9::77"), ("subscriber", "line 9"), ("imsi", "000000000000009")]
    {
        assert_eq!(numbers(&answer(&many, &request(&[(option, value)])).unwrap()), [9], "{option} {value}");
    }
    assert_eq!(answer(&many, &request(&[("filter", "name=line 9*")])).unwrap().entries.len(), 10);
    let refused = answer(&many, &request(&[("dnn", "internet")])).unwrap_err();
    assert_eq!(refused, "sessions have no dnn; allowed: imsi, address, teid, name");
    let wrong = |name, value: &str| super::request(&Keys(vec![(name, value.to_owned())]), None).unwrap_err();
    assert!(wrong("teid", "0x1_0000_0000").contains("invalid value") && wrong("top", "all").contains("rate, bytes"));
    assert!(wrong("limit", "0").contains("1 to 1000") && wrong("filter", "vlan=1").contains("unknown key"));
}

#[test]
fn a_table_shows_the_columns_there_are() {
    let page = answer(&Many::new(2), &request(&[])).unwrap();
    let wanted = "
2 sessions

  subscriber  imsi             addresses                   teid        up packets   bytes  down packets  bytes
  ────────────────────────────────────────────────────────────────────────────────────────────────────────────
  line 0      000000000000000  10.0.0.0 2001:db8:0:0::/64  0x00000000           0     0 B             0    0 B
  line 1      000000000000001  10.0.0.1 2001:db8:0:1::/64  0x00000001           0  1000 B             0    0 B
";
    assert_eq!(format!("\n{}", text(&page, Style::default())), wanted);
}
