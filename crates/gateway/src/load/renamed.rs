//! Former names of configuration keys: read for one release, with a warning.

/// A key that has a new name.
#[derive(Debug, PartialEq, Eq)]
pub struct Rename {
    /// The type that its section becomes.
    owner: &'static str,
    /// Its former name.
    pub old: &'static str,
    /// Its name.
    pub new: &'static str,
}

const fn rename(owner: &'static str, old: &'static str, new: &'static str) -> Rename {
    Rename { owner, old, new }
}

/// All that this release still reads. CHANGELOG.md lists them.
const RENAMED: &[Rename] = &[
    rename("Frames", "slots", "packet_buffers"),
    rename("Frames", "slot_bytes", "packet_buffer_bytes"),
    rename("Route", "via", "next_hop"),
    rename("Policy", "via", "next_hop"),
    rename("N4", "keep_seconds", "session_retention_seconds"),
    rename("Gtpu", "echo_tries", "n3_requests"),
    rename("Options", "patience", "timeout"),
    rename("Settings", "slots", "packet_buffers"),
    rename("Spec", "slots", "packet_buffers"),
];

/// Keys of a section under their present names.
pub fn present(known: &'static [&'static str]) -> Vec<&'static str> {
    let former = |name: &&str| RENAMED.iter().any(|rename| rename.old == *name && known.contains(&rename.new));
    known.iter().copied().filter(|name| !former(name)).collect()
}

/// The present name of a key that is written under its former one.
pub fn of(owner: &str, key: &str) -> Option<&'static Rename> {
    RENAMED.iter().find(|rename| rename.owner == owner && rename.old == key)
}
