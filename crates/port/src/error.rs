//! Why a port could not be opened, and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::bpf::BpfError;

/// Why a port could not be opened. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The text is not a port's URI.
    #[error("`{uri}` does not name a port: {what}; write kind:target?key=value, as in packet:eth0")]
    BadUri {
        /// The text.
        uri: String,
        /// What is wrong with it.
        what: String,
    },
    /// An unknown key.
    #[error("`{key}` is not a key of {kind} ports; known are: {known}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The scheme.
        kind: String,
        /// Keys there are.
        known: String,
    },
    /// A value that does not fit its key.
    #[error("`{key}={value}` is invalid; give {want}")]
    BadValue {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What would be right.
        want: String,
    },
    /// No such interface.
    #[error("there is no interface `{name}` in {place}; there are: {there}")]
    NoInterface {
        /// Name asked for.
        name: String,
        /// Namespace looked in.
        place: String,
        /// Names found.
        there: String,
    },
    /// No such network namespace.
    #[error("there is no network namespace `{name}`; make it with `ip netns add {name}`")]
    NoNamespace {
        /// Name asked for.
        name: String,
    },
    /// A privilege is missing.
    #[error("{doing} needs {capability}: run as root, or grant it with `setcap {capability}+ep` on the program")]
    Capability {
        /// What was tried.
        doing: String,
        /// `CAP_NET_RAW` and so on.
        capability: &'static str,
    },
    /// The limit on locked memory is too low.
    #[error(
        "{doing} needs {bytes} bytes of locked memory, more than the limit: raise it with `ulimit -l` or LimitMEMLOCK="
    )]
    LockedMemory {
        /// What was tried.
        doing: String,
        /// How much it needs.
        bytes: usize,
    },
    /// Members of a fanout group must join in order.
    #[error(
        "member {member} of fanout group {group} was opened when {joined} were open; open members 0, 1, 2, … in order"
    )]
    FanoutOrder {
        /// The group.
        group: u16,
        /// The member asked for.
        member: u16,
        /// How many had joined.
        joined: u16,
    },
    /// Another process has the interface.
    #[error(
        "`{name}` is in use by {process}: each of two processes would handle every packet; stop it, or divide the \
         interface among members of one group with fanout=…&group=…&member=…"
    )]
    InUse {
        /// Name of the interface, as the URI has it.
        name: String,
        /// Who has it, for people.
        process: String,
    },
    /// The kernel or device does not support it.
    #[error("{what} is not supported on this host: {advice}")]
    Unsupported {
        /// What.
        what: String,
        /// What to do instead.
        advice: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {what}", path.display())]
    BadFile {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A driver outside the kernel refused.
    #[error("{doing} failed: {why}; {advice}")]
    Device {
        /// What was tried, on what.
        doing: String,
        /// What the driver said.
        why: String,
        /// What to do.
        advice: String,
    },
    /// An eBPF program, map or attachment was refused.
    #[error(transparent)]
    Bpf(#[from] crate::bpf::BpfError),
    /// AF_XDP refused the request.
    #[error(transparent)]
    Xdp(#[from] crate::xdp::XdpError),
    /// Opening a port failed in the privileged helper, for a reason that only its own process could name.
    #[error("{text}")]
    Helper {
        /// The helper's error message, a whole sentence for people.
        text: String,
        /// Whether the helper lacks a privilege, so that more capabilities would help.
        permission: bool,
    },
    /// This process is the privileged helper, and will not do what the gateway asks for.
    #[error("the privileged helper refused ({}): {}", .0.name(), .0)]
    Refused(#[from] crate::helper::Refusal),
    /// The kernel refused for a reason not named above.
    #[error("{doing} failed: {source}")]
    System {
        /// What was tried, on what.
        doing: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl PortError {
    /// Whether a privilege is missing: more capabilities would help.
    pub fn is_permission(&self) -> bool {
        let denied = |source: &io::Error| matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES));
        match self {
            Self::Capability { .. } | Self::LockedMemory { .. } => true,
            Self::Helper { permission, .. } => *permission,
            Self::Bpf(
                BpfError::Load { source, .. } | BpfError::Map { source, .. } | BpfError::Attach { source, .. },
            ) => denied(source),
            Self::System { source, .. } => denied(source),
            _ => false,
        }
    }

    /// A system error of `doing`: one of permission names `capability`, any other what the kernel said.
    pub(crate) fn system(doing: impl Into<String>, capability: &'static str, source: io::Error) -> Self {
        let doing = doing.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Capability { doing, capability },
            _ => Self::System { doing, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_names_the_capability_and_the_cure() {
        let error = PortError::system("a raw socket", "CAP_NET_RAW", io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(
            error.to_string(),
            "a raw socket needs CAP_NET_RAW: run as root, or grant it with `setcap CAP_NET_RAW+ep` on the program"
        );
        let error = PortError::system("a raw socket", "CAP_NET_RAW", io::Error::from_raw_os_error(libc::ENOMEM));
        assert!(matches!(error, PortError::System { .. }));
    }
}
