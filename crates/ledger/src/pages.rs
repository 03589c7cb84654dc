//! The pages of the store's file, read without the store: what is whole can be read though something else is damaged.
//!
//! ```text
//! header ─► two commits, each with its checksum ─► tree of tables ─► tree of each table ─► leaves: keys and values
//! ```
//!
//! Every page's checksum (XXH3, 128 bits) is kept by the page that leads to it, and by the commit for the first one. A page
//! that does not have it is not read, nor what it leads to. The format is redb's version 3.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use twox_hash::XxHash3_128;

/// Bytes of the header with both commits.
const HEADER: usize = 320;
const COMMIT: usize = 128;
/// No tree is deeper; a file in which one is has been made to be.
const DEPTH: usize = 64;

/// Where a tree begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Root {
    page: u64,
    checksum: u128,
    /// Entries of the tree.
    len: u64,
}

impl Root {
    const LEN: usize = 32;

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self { page: u64_at(bytes, 0)?, checksum: u128_at(bytes, 8)?, len: u64_at(bytes, 24)? })
    }
}

/// A commit: what was in the file when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Commits are numbered one after the other.
    pub id: u64,
    tables: Option<Root>,
    /// The store's own tables.
    own: Option<Root>,
}

impl Commit {
    /// None where the checksum is not right.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (kept, checksum) = bytes.get(..COMMIT)?.split_at(COMMIT - 16);
        if XxHash3_128::oneshot(kept) != u128_at(checksum, 0)? || kept[0] != 3 {
            return None;
        }
        let root = |there: u8, at: usize| (there != 0).then(|| Root::read(&kept[at..])).flatten();
        Some(Self { id: u64_at(kept, 104)?, tables: root(kept[1], 8), own: root(kept[2], 8 + Root::LEN) })
    }
}

/// A table of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub name: String,
    root: Option<Root>,
    key: Option<usize>,
    value: Option<usize>,
    /// Values are trees themselves.
    is_multimap: bool,
}

impl Table {
    /// Entries it has where nothing is damaged.
    pub fn len(&self) -> u64 {
        self.root.map_or(0, |root| root.len)
    }

    fn read(name: &[u8], bytes: &[u8]) -> Option<Self> {
        let fixed = |at: usize| match bytes.get(at)? {
            0 => Some(None),
            _ => Some(Some(u32_at(bytes, at + 1)? as usize)),
        };
        Some(Self {
            name: String::from_utf8_lossy(name).into_owned(),
            is_multimap: bytes.first()? != &3,
            root: if bytes.get(9)? != &0 { Some(Root::read(bytes.get(10..)?)?) } else { None },
            key: fixed(10 + Root::LEN)?,
            value: fixed(15 + Root::LEN)?,
        })
    }
}

/// What could not be read of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Pages whose checksum is not right, or that cannot be read, by their offset in the file; and what is wrong.
    pub pages: Vec<(u64, &'static str)>,
    /// The greatest key, as bytes, of an entry that may have been on them; none: there is no bound. In the order of the
    /// tree.
    pub until: Option<Option<Vec<u8>>>,
}

/// Reads the file's pages without the database, which refuses a damaged file as a whole.
pub(crate) struct Pages {
    file: File,
    len: u64,
    head: [u8; HEADER],
    size: u64,
    region_header: u64,
    region_pages: u64,
}

impl Pages {
    /// # Errors
    /// A file that cannot be read, or is too short for a header.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut head = [0; HEADER];
        file.read_exact_at(&mut head, 0)?;
        // Neither is covered by a checksum, and both are the same in all files there are: better than what is damaged.
        let number = |at: usize, usual: u32, is_good: &dyn Fn(u32) -> bool| {
            u64::from(u32_at(&head, at).filter(|n| is_good(*n)).unwrap_or(usual))
        };
        let (size, region_pages) = (number(12, 4096, &|n| n == 4096), number(20, 1 << 20, &|n| n == 1 << 20));
        let region_header = number(16, 0, &|n| n == 0);
        Ok(Self { file, len, head, size, region_header, region_pages })
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the header is as the store writes it, its magic number and sizes.
    pub(crate) fn has_good_header(&self) -> bool {
        let sizes = [(12, 4096), (16, 0), (20, 1 << 20)];
        let pages = |at: usize| u32_at(&self.head, at).map_or(0, u64::from);
        // Damaged counts may name a length that no file has.
        let regions = pages(24).checked_mul(self.region_header + self.region_pages);
        let len = regions.and_then(|regions| self.size.checked_mul(1 + regions + pages(28)));
        self.head.starts_with(b"redb\x1a\x0a\xa9\x0d\x0a")
            && sizes.iter().all(|(at, usual)| u32_at(&self.head, *at) == Some(*usual))
            // Of a process that was killed the length is reckoned anew.
            && (self.is_in_use() || len == Some(self.len))
    }

    /// Whether a process that wrote to it was killed, or still runs.
    pub(crate) fn is_in_use(&self) -> bool {
        self.head[9] & 2 != 0
    }

    /// Whether it was written to since it was opened.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn has_changed(&self) -> io::Result<bool> {
        let mut head = [0; HEADER];
        self.file.read_exact_at(&mut head, 0)?;
        Ok(head != self.head)
    }

    /// Its commits whose checksum is right, the newest first.
    pub fn commits(&self) -> Vec<Commit> {
        let mut commits: Vec<_> = [64, 64 + COMMIT].iter().filter_map(|at| Commit::read(&self.head[*at..])).collect();
        commits.sort_by_key(|commit| std::cmp::Reverse(commit.id));
        commits
    }

    /// The tables of a commit; of the ledger, or the store's own.
    pub fn tables(&self, commit: &Commit, own: bool, lost: &mut Lost) -> Vec<Table> {
        let mut tables = Vec::new();
        let root = if own { commit.own } else { commit.tables };
        let list = Table { name: String::new(), root, key: None, value: None, is_multimap: false };
        self.read(&list, lost, &mut |name, bytes| tables.extend(Table::read(name, bytes)));
        tables
    }

    /// Gives all entries of a table that are on whole pages to `each`, in order.
    pub fn read(&self, table: &Table, lost: &mut Lost, each: &mut dyn FnMut(&[u8], &[u8])) {
        if let Some(root) = table.root {
            Walk { pages: self, table, lost, each }.tree(root.page, root.checksum, None, 0);
        }
    }

    fn page(&self, number: u64) -> Result<(u64, Vec<u8>), (u64, &'static str)> {
        let order = number >> 59;
        let (index, region) = (number & (0xf_ffff >> order.min(20)), number >> 20 & 0xf_ffff);
        let bytes = self.size << order.min(20);
        let region_size = (self.region_header + self.region_pages) * self.size;
        let at = self.size + region * region_size + self.region_header * self.size + index * bytes;
        if order > 20 || at + bytes > self.len {
            return Err((at, "beyond the end of the file"));
        }
        let mut page = vec![0; bytes as usize]; // no larger than the file
        match self.file.read_exact_at(&mut page, at) {
            Ok(()) => Ok((at, page)),
            Err(_) => Err((at, "cannot be read")),
        }
    }
}

/// Goes through a tree.
struct Walk<'a> {
    pages: &'a Pages,
    table: &'a Table,
    lost: &'a mut Lost,
    each: &'a mut dyn FnMut(&[u8], &[u8]),
}

impl Walk<'_> {
    /// The entries below a page; `until` is the greatest key they may have.
    fn tree(&mut self, number: u64, checksum: u128, until: Option<&[u8]>, depth: usize) {
        let (at, page) = match self.pages.page(number) {
            Ok(page) => page,
            Err(fault) => return self.lose(fault, until),
        };
        if depth >= DEPTH {
            return self.lose((at, "leads in a circle"), until);
        }
        let read = match page[0] {
            1 => leaf(&page, self.table.key, self.table.value).map(Node::Leaf),
            2 => branch(&page, self.table.key).map(Node::Branch),
            _ => return self.lose((at, "no page of a table"), until),
        };
        let whole = |end: usize| page.get(..end).is_some_and(|kept| XxHash3_128::oneshot(kept) == checksum);
        match read {
            Some(Node::Leaf((end, entries))) if whole(end) => {
                entries.iter().for_each(|[key, value]| (self.each)(&page[key.clone()], &page[value.clone()]));
            }
            Some(Node::Branch((end, children))) if whole(end) => {
                for (number, checksum, key) in children {
                    let until = key.map(|key| &page[key]).or(until);
                    self.tree(number, checksum, until, depth + 1);
                }
            }
            _ => self.lose((at, "wrong checksum"), until),
        }
    }

    fn lose(&mut self, fault: (u64, &'static str), until: Option<&[u8]>) {
        self.lost.pages.push(fault);
        // Pages come in the order of their keys: the last one's bound is the greatest.
        self.lost.until = Some(until.map(<[u8]>::to_vec));
    }
}

type Place = std::ops::Range<usize>;

/// Where the bytes end that a page's checksum is of; where keys and values are.
type Leaf = (usize, Vec<[Place; 2]>);
/// As [`Leaf`]; number, checksum and greatest key of each child. The last one's greatest key is its parent's.
type Branch = (usize, Vec<(u64, u128, Option<Place>)>);

enum Node {
    Leaf(Leaf),
    Branch(Branch),
}

/// None where places overlap or are beyond the page.
fn leaf(page: &[u8], key: Option<usize>, value: Option<usize>) -> Option<Leaf> {
    let count = usize::from(u16_at(page, 2)?);
    let table = |fixed: Option<usize>| if fixed.is_none() { 4 * count } else { 0 };
    let (keys, values) = (4, 4 + table(key));
    let first = values + table(value);
    let ends = |fixed: Option<usize>, table: usize, begin: usize| -> Option<Vec<Place>> {
        let mut from = begin;
        (0..count)
            .map(|n| {
                let end = match fixed {
                    Some(fixed) => from.checked_add(fixed)?,
                    None => u32_at(page, table + 4 * n)? as usize,
                };
                let place = from..end;
                from = end;
                (place.start <= place.end && place.end <= page.len()).then_some(place)
            })
            .collect()
    };
    let key_places = ends(key, keys, first)?;
    let value_places = ends(value, values, key_places.last()?.end)?;
    let end = value_places.last()?.end;
    Some((end, key_places.into_iter().zip(value_places).map(|(key, value)| [key, value]).collect()))
}

/// As [`leaf`].
fn branch(page: &[u8], key: Option<usize>) -> Option<Branch> {
    let keys = usize::from(u16_at(page, 2)?);
    let (sums, numbers) = (8, 8 + 16 * (keys + 1));
    let table = numbers + 8 * (keys + 1);
    let mut from = table + if key.is_none() { 4 * keys } else { 0 };
    let mut children = Vec::with_capacity(keys + 1);
    for n in 0..=keys {
        let place = if n < keys {
            let end = match key {
                Some(fixed) => from.checked_add(fixed)?,
                None => u32_at(page, table + 4 * n)? as usize,
            };
            let place = from..end;
            from = end;
            Some(Some(place).filter(|place| place.start <= place.end && place.end <= page.len())?)
        } else {
            None
        };
        children.push((u64_at(page, numbers + 8 * n)?, u128_at(page, sums + 16 * n)?, place));
    }
    (keys > 0).then_some((from, children))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    bytes.get(at..)?.first_chunk().map(|bytes| u128::from_le_bytes(*bytes))
}
