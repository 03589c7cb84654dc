//! Why a benchmark could not be run.

/// What went wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A wrong number or name on the command line.
    #[error("{0}")]
    Asked(String),
    /// A profile's setting.
    #[error(transparent)]
    Setting(#[from] crate::profiles::SettingError),
    /// The traffic cannot be.
    #[error("the traffic profile is invalid: {0}")]
    Traffic(#[from] traffic::ProfileError),
    /// The gateway cannot be.
    #[error("the gateway's configuration is invalid: {0}")]
    Gateway(String),
    /// A port did not open.
    #[error("{uri}: {source}")]
    Port {
        /// Which.
        uri: String,
        /// Why.
        source: port::PortError,
    },
    /// A BPF program did not load.
    #[error("the source of overload: {0}")]
    Blast(#[from] port::bpf::BpfError),
    /// The load broke off.
    #[error("the load broke off: {0}")]
    Load(String),
    /// Something of the system was refused.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A command of the laboratory failed.
    #[error("`{command}` failed: {said}")]
    Lab {
        /// The command.
        command: String,
        /// What it said.
        said: String,
    },
    /// An agent on another host.
    #[error("{0}")]
    Agent(String),
    /// A thread of the trial ended by itself.
    #[error("the {0} ended by itself; its message is above")]
    Died(&'static str),
    /// Somebody pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// Shorthand for [`BenchError::System`].
    pub fn system(doing: impl Into<String>, source: std::io::Error) -> Self {
        Self::System { doing: doing.into(), source }
    }
}
