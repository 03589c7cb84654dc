//! A document as a tree whose keys keep their order, and the tree as YAML.

use std::fmt::Write;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Keys and values, in the order written.
    Map(Vec<(String, Node)>),
    /// Values.
    List(Vec<Node>),
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// A value that a chart lets its user choose, by the name it has there; elsewhere it is the value itself.
    Setting(&'static str, Box<Node>),
}

/// A map: `map! { "Type" => "AWS::EC2::VPC", "Properties" => map! { … } }`.
#[macro_export]
macro_rules! map {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::node::Node::Map(vec![$((String::from($key), $crate::node::Node::from($value))),*])
    };
}

/// A list: `list!["a", "b"]`.
#[macro_export]
macro_rules! list {
    ($($value:expr),* $(,)?) => { $crate::node::Node::List(vec![$($crate::node::Node::from($value)),*]) };
}

macro_rules! from {
    ($($type:ty => |$value:ident| $node:expr;)*) => {
        $(impl From<$type> for Node { fn from($value: $type) -> Self { $node } })*
    };
}

from! {
    &str => |text| Node::Text(text.to_owned());
    String => |text| Node::Text(text);
    &String => |text| Node::Text(text.clone());
    u32 => |number| Node::Int(number.into());
    i64 => |number| Node::Int(number);
    f64 => |number| Node::Float(number);
    bool => |yes| Node::Bool(yes);
    Vec<Node> => |list| Node::List(list);
}

impl Node {
    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The value at a path of keys and list positions.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| match node {
            Self::List(list) => list.get(key.parse::<usize>().ok()?),
            _ => node.get(key),
        })
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Setting(_, value) => value.text(),
            _ => None,
        }
    }

    /// Its whole number.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Setting(_, value) => value.int(),
            _ => None,
        }
    }

    /// A value that a chart lets its user choose.
    pub fn setting(name: &'static str, value: impl Into<Node>) -> Self {
        Self::Setting(name, Box::new(value.into()))
    }

    /// Keys and values; none of anything but a map.
    pub fn entries(&self) -> &[(String, Node)] {
        match self {
            Self::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Values; none of anything but a list.
    pub fn items(&self) -> &[Node] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }

    /// Adds a key at the end of a map.
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<Node>) {
        if let Self::Map(entries) = self {
            entries.push((key.into(), value.into()));
        }
    }

    /// Calls `see` for this and everything below it.
    pub fn walk<'a>(&'a self, see: &mut impl FnMut(&'a Node)) {
        see(self);
        match self {
            Self::Map(entries) => entries.iter().for_each(|(_, value)| value.walk(see)),
            Self::List(list) => list.iter().for_each(|value| value.walk(see)),
            _ => {}
        }
    }

    /// As YAML.
    pub fn yaml(&self) -> String {
        let mut out = String::new();
        write_block(&mut out, self, 0);
        out
    }

    /// As JSON, indented.
    pub fn json(&self) -> String {
        let mut out = serde_json::to_string_pretty(&self.value()).unwrap_or_default();
        out.push('\n');
        out
    }

    fn value(&self) -> serde_json::Value {
        match self {
            Self::Map(entries) => {
                serde_json::Value::Object(entries.iter().map(|(key, value)| (key.clone(), value.value())).collect())
            }
            Self::List(list) => list.iter().map(Self::value).collect(),
            Self::Text(text) => text.as_str().into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Bool(yes) => (*yes).into(),
            Self::Setting(_, value) => value.value(),
        }
    }
}

/// Writes a map or list in lines of their own; anything else in one.
fn write_block(out: &mut String, node: &Node, depth: usize) {
    let indent = "  ".repeat(depth);
    match node {
        Node::Map(entries) => {
            for (key, value) in entries {
                let _ = write!(out, "{indent}{}:", scalar(key));
                write_value(out, value, depth);
            }
        }
        Node::List(list) => {
            for value in list {
                let _ = write!(out, "{indent}-");
                match value {
                    Node::Map(entries) if !entries.is_empty() => {
                        // The first key stands behind the dash.
                        let mut inner = String::new();
                        write_block(&mut inner, value, depth + 1);
                        let _ = write!(out, " {}", inner.trim_start());
                    }
                    _ => write_value(out, value, depth),
                }
            }
        }
        other => {
            let _ = writeln!(out, "{indent}{}", plain(other));
        }
    }
}

/// Writes what stands behind a key or a dash.
fn write_value(out: &mut String, value: &Node, depth: usize) {
    match value {
        Node::Map(entries) if !entries.is_empty() => {
            out.push('\n');
            write_block(out, value, depth + 1);
        }
        Node::List(list) if !list.is_empty() => {
            out.push('\n');
            write_block(out, value, depth + 1);
        }
        Node::Text(text) if is_lines(text) => {
            out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in text.lines() {
                match line.is_empty() {
                    true => out.push('\n'),
                    false => {
                        let _ = writeln!(out, "{}{line}", "  ".repeat(depth + 1));
                    }
                }
            }
        }
        other => {
            let _ = writeln!(out, " {}", plain(other));
        }
    }
}

/// Whether a text can stand as it is, in lines of its own.
fn is_lines(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.ends_with("\n\n")
        && text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control())
}

fn plain(node: &Node) -> String {
    match node {
        Node::Map(_) => "{}".to_owned(),
        Node::List(_) => "[]".to_owned(),
        Node::Text(text) => scalar(text),
        Node::Int(number) => number.to_string(),
        Node::Float(number) => format!("{number:?}"),
        Node::Bool(yes) => yes.to_string(),
        Node::Setting(_, value) => plain(value),
    }
}

/// Text on one line: quoted wherever a reader of YAML might take it for something else.
fn scalar(text: &str) -> String {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_-./@+() ".contains(c) || c == ':';
    let words = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let stands = starts_well
        && text.chars().all(is_safe)
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !words.contains(&text.to_ascii_lowercase().as_str());
    if stands { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tree_as_yaml() {
        let tree = map! {
            "Type" => "AWS::EC2::VPC",
            "on" => "yes",
            "version" => "2010-09-09",
            "list" => list![map! { "a" => 1_i64, "b" => list!["x", true] }, "10.0.0.0/16", map! {}],
            "script" => "#!/bin/sh\n\necho \"$1\"\n",
            "ratio" => 0.5,
        };
        let expected = "Type: AWS::EC2::VPC\n\"on\": \"yes\"\nversion: \"2010-09-09\"\nlist:\n  - a: 1\n    b:\n      - x\n      - true\n  - \"10.0.0.0/16\"\n  - {}\n\
                        script: |\n  #!/bin/sh\n\n  echo \"$1\"\nratio: 0.5\n";
        assert_eq!(tree.yaml(), expected);
        assert_eq!(tree.at(&["list", "0", "b", "0"]).and_then(super::Node::text), Some("x"));
    }
}
