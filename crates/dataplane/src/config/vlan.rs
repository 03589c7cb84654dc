//! The VLAN tags of a port's frames, as configured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ethernet::{Tag, Tags};
use wire::{Vlan, ethertype};

/// One tag, or up to two, the outermost first: `100`, `"0x88a8:100"`, `["0x88a8:100", 200]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a VLAN such as 100, or up to two, the outermost first, such as [\"0x88a8:100\", 200]")]
pub enum VlanStack {
    /// A tag as configured: its type and VLAN ID.
    One(VlanTag),
    /// Tags, the outermost first.
    Several(Vec<VlanTag>),
}

/// A tag: its VLAN identifier, 1 to 4094, in an 802.1Q tag; or both its type and identifier, `"0x88a8:100"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a VLAN, such as 100 or \"0x88a8:100\"")]
pub enum VlanTag {
    /// The identifier, of type 0x8100.
    Id(u16),
    /// Type and identifier.
    Text(String),
}

/// Why no tags were made: what is wrong, and what is allowed.
pub type Wrong = (String, &'static str);

impl VlanStack {
    /// The tags, priority 0.
    ///
    /// # Errors
    /// A type or identifier that is none, or too many tags.
    pub fn tags(&self) -> Result<Tags, Wrong> {
        let list = match self {
            Self::One(tag) => std::slice::from_ref(tag),
            Self::Several(list) => list,
        };
        match list {
            [] => Ok(Tags::None),
            [one] => Ok(Tags::One(one.tag()?)),
            [outer, inner] => Ok(Tags::Two(outer.tag()?, inner.tag()?)),
            _ => Err((format!("{} VLAN tags", list.len()), "two at most, the outermost first")),
        }
    }
}

impl VlanStack {
    /// The outermost tag's VLAN identifier; 0: there is no tag.
    pub fn outermost(&self) -> u16 {
        match self.tags() {
            Ok(Tags::One(tag) | Tags::Two(tag, _)) => tag.vlan.id(),
            Ok(Tags::None) | Err(_) => 0,
        }
    }
}

impl VlanTag {
    fn tag(&self) -> Result<Tag, Wrong> {
        let (kind, id) = match self {
            Self::Id(id) => (ethertype::VLAN, *id),
            Self::Text(text) => {
                let (kind, id) = text.split_once(':').unwrap_or(("0x8100", text));
                let wrong = || (format!("\"{text}\" is no VLAN tag"), "such as 100 or \"0x88a8:100\"");
                let kind = match kind {
                    "0x8100" => ethertype::VLAN,
                    "0x88a8" | "0x88A8" => ethertype::SERVICE_VLAN,
                    _ => return Err((format!("no such tag type: \"{kind}\""), "0x8100 or 0x88a8")),
                };
                (kind, id.trim().parse().map_err(|_| wrong())?)
            }
        };
        if id == 0 || id > 4094 {
            return Err(("no such VLAN".into(), "1 to 4094, or leave it out"));
        }
        Ok(Tag { kind, vlan: Vlan::of(id) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Port {
        vlan: VlanStack,
    }

    fn tags(text: &str) -> Result<Tags, String> {
        let port: Port = toml::from_str(&format!("vlan = {text}")).map_err(|error| error.message().to_owned())?;
        port.vlan.tags().map_err(|(what, allowed)| format!("{what}; {allowed}"))
    }

    #[test]
    fn stacks_are_read_in_every_form() {
        let (customer, service) = (|id| Tag::customer(Vlan::of(id)), |id| Tag::service(Vlan::of(id)));
        assert_eq!(tags("100"), Ok(Tags::One(customer(100))));
        assert_eq!(tags("\"0x88a8:100\""), Ok(Tags::One(service(100))));
        assert_eq!(tags("[]"), Ok(Tags::None));
        assert_eq!(tags("[100]"), Ok(Tags::One(customer(100))));
        assert_eq!(tags("[\"0x88a8:100\", 200]"), Ok(Tags::Two(service(100), customer(200))));
        assert_eq!(tags("[100, \"200\"]"), Ok(Tags::Two(customer(100), customer(200))));
    }

    #[test]
    fn wrong_tags_are_refused_with_help() {
        assert_eq!(tags("0"), Err("no such VLAN; 1 to 4094, or leave it out".into()));
        assert_eq!(tags("[1, 4095]"), Err("no such VLAN; 1 to 4094, or leave it out".into()));
        assert_eq!(tags("[1, 2, 3]"), Err("3 VLAN tags; two at most, the outermost first".into()));
        assert_eq!(tags("\"0x9100:7\""), Err("no such tag type: \"0x9100\"; 0x8100 or 0x88a8".into()));
        assert_eq!(tags("\"frogs\""), Err("\"frogs\" is no VLAN tag; such as 100 or \"0x88a8:100\"".into()));
        assert!(tags("true").unwrap_err().contains("a VLAN such as 100"));
    }
}
