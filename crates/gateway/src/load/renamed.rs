//! Former names of configuration keys: read for one release, with a warning. CHANGELOG.md lists them.

/// A key that has a new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The type that its section becomes.
    owner: &'static str,
    /// Its former name.
    pub old: &'static str,
    /// The name that is used now.
    pub new: &'static str,
}

impl Rename {
    /// A key of the section that becomes the type `owner`.
    pub const fn new(owner: &'static str, old: &'static str, new: &'static str) -> Self {
        Self { owner, old, new }
    }
}

/// Those of sections that all gateways have.
const OF_ALL: &[Rename] = &[
    Rename::new("Frames", "slots", "packet_buffers"),
    Rename::new("Frames", "slot_bytes", "packet_buffer_bytes"),
    Rename::new("Route", "via", "next_hop"),
];

/// Those, and a reader's own.
fn all(own: &'static [Rename]) -> impl Iterator<Item = &'static Rename> {
    OF_ALL.iter().chain(own)
}

/// Keys of a section under their present names.
pub fn present(known: &'static [&'static str], own: &'static [Rename]) -> Vec<&'static str> {
    let former = |name: &&str| all(own).any(|rename| rename.old == *name && known.contains(&rename.new));
    known.iter().copied().filter(|name| !former(name)).collect()
}

/// The present name of a key that is written under its former one.
pub fn of(owner: &str, key: &str, own: &'static [Rename]) -> Option<&'static Rename> {
    all(own).find(|rename| rename.owner == owner && rename.old == key)
}
