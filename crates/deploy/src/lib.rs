//! CloudFormation templates and Kubernetes manifests of a planned fleet, as text.
//!
//! ```
//! use deploy::cidr::Cidr;
//!
//! let network: Cidr = "10.0.0.0/16".parse().unwrap();
//! let subnet = network.part(3, 24).unwrap(); // the fourth /24
//! assert!(network.contains(subnet) && subnet.has("10.0.3.7".parse().unwrap()));
//! ```
//!
//! No I/O, no clock, no dependency on other crates of the workspace: a [`fleet::Fleet`] goes in, files and findings
//! come out.
//!
//! | file | content |
//! |---|---|
//! | `settings.rs`, `fleet.rs` | settings and result of a plan; each gateway's number, addresses, processors |
//! | `gateway.rs` | a gateway's configuration |
//! | `aws.rs` | CloudFormation: network, fleet, machine image |
//! | `module.rs` | the same as a module of OpenTofu or Terraform |
//! | `kubernetes.rs` | manifests and the container file |
//! | `rules.rs` | checks that linters cannot do |
//! | `node.rs`, `cidr.rs`, `finding.rs` | documents, networks, findings |

#![forbid(unsafe_code)]
// Names and types document most items; comments are written where they add a unit, a clause or a reason.
#![allow(missing_docs)]

pub mod aws;
pub mod cidr;
pub mod finding;
pub mod fleet;
pub mod gateway;
pub mod kubernetes;
pub mod module;
pub mod monitoring;
pub mod node;
pub mod rules;
pub mod settings;
pub mod trial;

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
