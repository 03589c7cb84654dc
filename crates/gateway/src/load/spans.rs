//! Where in a TOML text a path of keys is, and which path a place in the text belongs to.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The place of a path: `key = value` for a key, the element for a list position; where the path ends before its last
/// step, the nearest place there is.
pub fn find(tree: &Spanned<DeTable<'_>>, path: &[String]) -> Range<usize> {
    let mut best = 0..0;
    let Some((first, rest)) = path.split_first() else { return best };
    let Some((key, value)) = entry(tree.get_ref(), first) else { return best };
    best = joined(key, value);
    let mut at = value;
    for step in rest {
        let next = match at.get_ref() {
            DeValue::Table(table) => entry(table, step).map(|(key, value)| (joined(key, value), value)),
            DeValue::Array(list) => {
                let element = step.parse::<usize>().ok().and_then(|n| list.get(n));
                element.map(|value| (value.span(), value))
            }
            _ => None,
        };
        let Some((span, value)) = next else { break };
        best = span;
        at = value;
    }
    best
}

/// The path of keys and positions that leads to a place in the text, as far as there is one.
pub(crate) fn path_at(tree: &Spanned<DeTable<'_>>, place: &Range<usize>) -> Vec<String> {
    let mut path = Vec::new();
    table_path(tree.get_ref(), place, &mut path);
    path
}

/// The whole `key = value` around a span that is the value of that path.
pub(crate) fn assignment(tree: &Spanned<DeTable<'_>>, path: &[String], span: Range<usize>) -> Range<usize> {
    let found = find(tree, path);
    if found.start <= span.start && span.end <= found.end { found } else { span }
}

/// What to mark of a place: its first line, without spaces around it.
pub fn shown(text: &str, span: Range<usize>) -> Range<usize> {
    let Some(part) = text.get(span.clone()) else { return visible(text, span) };
    let line = part.lines().next().unwrap_or_default().trim_end();
    visible(text, span.start..span.start + line.len())
}

/// A span of at least one character that lies inside the text.
pub(crate) fn visible(text: &str, span: Range<usize>) -> Range<usize> {
    let mut start = span.start.min(text.len());
    if start == text.len() || span.is_empty() && text[start..].starts_with('\n') {
        // The end of the text, or of a line: mark the last character before it.
        start = text[..start].trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
    }
    let one = text[start..].chars().next().map_or(0, char::len_utf8);
    start..span.end.clamp(start + one, text.len().max(start + one))
}

type Pair<'t, 'i> = (&'t Spanned<std::borrow::Cow<'i, str>>, &'t Spanned<DeValue<'i>>);

fn entry<'t, 'i>(table: &'t DeTable<'i>, name: &str) -> Option<Pair<'t, 'i>> {
    table.iter().find(|(key, _)| key.get_ref() == name)
}

/// From the key to the end of its value; a section's value is its header, which has the key inside.
fn joined(key: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Range<usize> {
    let (key, value) = (key.span(), value.span());
    if value.start >= key.end { key.start..value.end } else { value }
}

fn table_path(table: &DeTable<'_>, place: &Range<usize>, path: &mut Vec<String>) -> bool {
    for (key, value) in table.iter() {
        path.push(key.get_ref().to_string());
        if covers(&key.span(), place) || value_path(value, place, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn value_path(value: &Spanned<DeValue<'_>>, place: &Range<usize>, path: &mut Vec<String>) -> bool {
    let inside = match value.get_ref() {
        DeValue::Table(table) => table_path(table, place, path),
        DeValue::Array(list) => list.iter().enumerate().any(|(n, element)| {
            path.push(n.to_string());
            let found = value_path(element, place, path);
            if !found {
                path.pop();
            }
            found
        }),
        _ => false,
    };
    inside || covers(&value.span(), place)
}

fn covers(span: &Range<usize>, place: &Range<usize>) -> bool {
    span.start <= place.start && place.end <= span.end
}
