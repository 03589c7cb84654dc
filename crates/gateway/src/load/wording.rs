//! What the TOML reader says, in an operator's words.

/// A mistake in words.
pub struct Worded {
    /// What is wrong.
    pub what: String,
    /// What would be right, when it is known.
    pub help: Option<String>,
    /// The mistake is something that is not there.
    pub is_missing: bool,
}

impl Worded {
    fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: Some(help.into()), is_missing: false }
    }
}

/// A mistake of the file's form.
pub fn syntax(message: &str) -> Worded {
    let first = message.lines().next().unwrap_or("this is not TOML");
    if first == "duplicate key" {
        return Worded::new(
            "this is given twice",
            "once is right; sections that repeat have double brackets: [[port]]",
        );
    }
    let help = "keys and values are written as in name = \"text\", count = 3, list = [1, 2], under [section] headers";
    Worded::new(first, help)
}

/// A mistake of a key or value, from what serde says of it.
pub fn mistake(message: &str) -> Worded {
    let message = message.trim();
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let names = quoted(rest);
        let (name, known) = names.split_first().map_or(("", &[][..]), |(name, known)| (*name, known));
        return Worded::new(format!("there is no key `{name}` here"), suggestion(name, known, "the keys here are"));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let names = quoted(rest);
        let (name, known) = names.split_first().map_or(("", &[][..]), |(name, known)| (*name, known));
        return Worded::new(format!("unknown value \"{name}\""), suggestion(name, known, "allowed"));
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        let name = quoted(rest).first().copied().unwrap_or("").to_owned();
        let mut worded = Worded::new(format!("the key `{name}` is missing"), format!("add {}", example(&name)));
        worded.is_missing = true;
        return worded;
    }
    if let Some(rest) = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "))
        && let Some((found, wanted)) = rest.split_once(", expected ")
    {
        if found == "map" {
            return Worded::new(
                "no list of sections goes here",
                "write the header once, in single brackets: [section]",
            );
        }
        return Worded::new(format!("{} does not fit here", kind(found)), format!("write {}", wish(wanted)));
    }
    let help = if message.contains("IPv4 address") {
        "such as 10.0.3.1"
    } else if message.contains("IPv6 address") {
        "such as 2001:db8::1"
    } else if message.contains("IP address") {
        "such as 10.0.3.1 or 2001:db8::1"
    } else {
        return Worded { what: message.to_owned(), help: None, is_missing: false };
    };
    Worded::new("this is no address", help)
}

/// The names between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn suggestion(name: &str, known: &[&str], list: &str) -> String {
    let closest = known.iter().map(|k| (strsim::damerau_levenshtein(name, k), *k)).min();
    let all = known.join(", ");
    match closest {
        Some((distance, best)) if distance <= (name.len().max(best.len()) / 3).max(1) => {
            format!("did you mean `{best}`? {list}: {all}")
        }
        _ => format!("{list}: {all}"),
    }
}

/// What a missing key would look like.
fn example(name: &str) -> String {
    let value = match name {
        "gateway" => "\"upf\"",
        "name" => "\"n3\"",
        "uri" => "\"packet:eth0\"",
        "role" => "\"access\" or role = \"core\"",
        "to" => "\"0.0.0.0/0\"",
        "via" => "\"10.0.6.254\"",
        "address" => "\"10.0.3.100\"",
        "mac" => "\"02:00:00:00:00:01\"",
        "port" => "\"n3\"",
        _ => "…",
    };
    format!("{name} = {value}")
}

fn kind(found: &str) -> String {
    let value = quoted(found).first().map(|v| format!(" {v}")).unwrap_or_default();
    if found.starts_with("string") {
        format!("the text{}", found.trim_start_matches("string"))
    } else if found.starts_with("integer") {
        format!("the number{value}")
    } else if found.starts_with("floating point") {
        format!("the fraction{value}")
    } else if found.starts_with("boolean") {
        format!("the word{value}")
    } else if found.starts_with("sequence") {
        "a list".to_owned()
    } else {
        found.to_owned()
    }
}

fn wish(wanted: &str) -> String {
    match wanted {
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "path string" => "a text in double quotes".to_owned(),
        "a sequence" => {
            "a list in square brackets; sections that repeat have a header in double ones: [[port]]".to_owned()
        }
        other if other.starts_with("struct ") => "a section, or { key = value } in braces".to_owned(),
        other => other.to_owned(),
    }
}
