//! Writes what brings a planned fleet of gateways up: text, and nothing else. No input or output, no clock, nothing of
//! the rest of the house: a [`fleet::Fleet`] goes in, files come out, and what is wrong with either is said.
//!
//! | file | idea |
//! |---|---|
//! | `settings.rs`, `fleet.rs` | what a plan says and answers; each gateway's number, addresses, processors |
//! | `gateway.rs` | a gateway's configuration |
//! | `aws.rs` | CloudFormation: network, fleet, machine image |
//! | `kubernetes.rs` | manifests and a container's recipe |
//! | `rules.rs` | what linters can not know |
//! | `node.rs`, `cidr.rs`, `finding.rs` | documents, networks, mistakes |

#![forbid(unsafe_code)]

pub mod aws;
pub mod cidr;
pub mod finding;
pub mod fleet;
pub mod gateway;
pub mod kubernetes;
pub mod node;
pub mod rules;
pub mod settings;

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name, below the folder.
    pub name: String,
    /// What is in it.
    pub text: String,
}

impl File {
    /// A file.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}
