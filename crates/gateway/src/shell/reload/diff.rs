//! The differences of two configurations, as value trees.

use serde_json::Value;

use super::LiveKey;

/// A value that differs: where, before, after; `Null` is not set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub path: Vec<String>,
    pub old: Value,
    pub new: Value,
}

/// All differences, in order of the keys. List elements that are equal at both ends of a list are left out; what is between
/// is compared by position, and the rest was added or removed.
pub(super) fn differences(old: &Value, new: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(&mut Vec::new(), old, new, &mut found);
    found
}

fn compare(path: &mut Vec<String>, old: &Value, new: &Value, found: &mut Vec<Difference>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let of = |table: &serde_json::Map<String, Value>| table.get(key).cloned().unwrap_or(Value::Null);
                within(path, key.clone(), &of(before), &of(after), found);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            let start = before.iter().zip(after).take_while(|(old, new)| old == new).count();
            let (before, after) = (&before[start..], &after[start..]);
            let end = before.iter().rev().zip(after.iter().rev()).take_while(|(old, new)| old == new).count();
            let (before, after) = (&before[..before.len() - end], &after[..after.len() - end]);
            for n in 0..before.len().max(after.len()) {
                let of = |list: &[Value]| list.get(n).cloned().unwrap_or(Value::Null);
                within(path, (start + n).to_string(), &of(before), &of(after), found);
            }
        }
        _ => found.push(Difference { path: path.clone(), old: old.clone(), new: new.clone() }),
    }
}

fn within(path: &mut Vec<String>, step: String, old: &Value, new: &Value, found: &mut Vec<Difference>) {
    path.push(step);
    compare(path, old, new, found);
    path.pop();
}

/// Stands in a key path for each element of a list.
const EACH: &str = "*";

/// The entry that covers a path.
pub(super) fn live<'a>(mut table: impl Iterator<Item = &'a LiveKey>, path: &[String]) -> Option<&'a LiveKey> {
    table.find(|entry| {
        let mut steps = path.iter();
        entry.key.split('.').all(|step| steps.next().is_some_and(|other| step == EACH || other == step))
    })
}

/// Whether the lists on a key path have the same elements in the same order: as many, each with the `name` it had. A key of
/// an element can be taken only then.
pub(super) fn is_aligned(old: &Value, new: &Value, key: &str) -> bool {
    let Some((list, rest)) = key.split_once(".*.") else { return true };
    let at = format!("/{}", list.replace('.', "/"));
    match (old.pointer(&at), new.pointer(&at)) {
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            before.len() == after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|(old, new)| old.get("name") == new.get("name") && is_aligned(old, new, rest))
        }
        (before, after) => before.is_none() && after.is_none(),
    }
}

/// Puts the value that `from` has at a key path into `into`; where `from` has none, it is taken out. A path through the
/// elements of a list is taken of each element that has the table in both.
pub(super) fn take(into: &mut Value, from: &Value, key: &str) {
    if let Some((list, rest)) = key.split_once(".*.") {
        let at = format!("/{}", list.replace('.', "/"));
        let (Some(Value::Array(into)), Some(Value::Array(from))) = (into.pointer_mut(&at), from.pointer(&at)) else {
            return;
        };
        let table = rest.rsplit_once('.').map_or(String::new(), |(table, _)| format!("/{}", table.replace('.', "/")));
        let is_table = |value: &Value| rest.contains('*') || value.pointer(&table).is_some_and(Value::is_object);
        let both = into.iter_mut().zip(from).filter(|(into, from)| is_table(into) && is_table(from));
        return both.for_each(|(into, from)| take(into, from, rest));
    }
    let pointer = format!("/{}", key.replace('.', "/"));
    let (table, last) = pointer.rsplit_once('/').unwrap_or(("", key));
    if into.pointer(table).is_none() {
        // The whole table is new.
        return match table.is_empty() {
            true => {}
            false => take(into, from, &table[1..].replace('/', ".")),
        };
    }
    let value = from.pointer(&pointer).cloned();
    if let Some(Value::Object(table)) = into.pointer_mut(table) {
        match value {
            Some(value) => drop(table.insert(last.to_owned(), value)),
            None => drop(table.remove(last)),
        }
    }
}

/// A tree without values that are not set, as TOML has it.
pub(super) fn set_only(value: Value) -> Value {
    match value {
        Value::Object(table) => {
            Value::Object(table.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, set_only(v))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(set_only).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(old: &Value, new: &Value) -> Vec<String> {
        let told = |d: Difference| format!("{}: {} → {}", d.path.join("."), d.old, d.new);
        differences(old, new).into_iter().map(told).collect()
    }

    #[test]
    fn a_changed_scalar_is_one_difference() {
        let (old, new) =
            (json!({"log": {"level": "info", "format": "text"}}), json!({"log": {"level": "warn", "format": "text"}}));
        assert_eq!(told(&old, &new), [r#"log.level: "info" → "warn""#]);
        assert!(told(&old, &old).is_empty());
    }

    #[test]
    fn inserted_and_removed_elements_are_found() {
        let (a, b, c) = (json!({"to": "a"}), json!({"to": "b"}), json!({"to": "c"}));
        let (two, three) = (json!({"route": [a, c]}), json!({"route": [a, b, c]}));
        assert_eq!(told(&two, &three), [r#"route.1: null → {"to":"b"}"#]);
        assert_eq!(told(&three, &two), [r#"route.1: {"to":"b"} → null"#]);
        assert_eq!(told(&json!({"route": [a]}), &json!({"route": [b]})), [r#"route.0.to: "a" → "b""#]);
    }

    #[test]
    fn live_keys_cover_what_is_below_them() {
        let table = [LiveKey { key: "route", help: "" }, LiveKey { key: "log.level", help: "" }];
        let is_live = |path: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            live(table.iter(), &path).is_some()
        };
        assert!(is_live("route") && is_live("route.1.to") && is_live("log.level"));
        let each = [LiveKey { key: "group.*.acl", help: "" }];
        let path = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<String>>();
        assert!(live(each.iter(), &path("group.3.acl")).is_some());
        assert!(live(each.iter(), &path("group.3")).is_none() && live(each.iter(), &path("group.3.name")).is_none());
        assert!(!is_live("log") && !is_live("log.format") && !is_live("routes") && !is_live("workers.count"));
    }

    #[test]
    fn only_named_keys_are_taken() {
        let mut running = json!({"log": {"level": "info", "format": "text"}, "route": [1], "workers": 1});
        let file = json!({"log": {"level": "warn", "format": "json"}, "route": [], "workers": 2});
        take(&mut running, &file, "log.level");
        take(&mut running, &file, "route");
        assert_eq!(running, json!({"log": {"level": "warn", "format": "text"}, "route": [], "workers": 1}));
    }

    #[test]
    fn keys_of_list_elements_are_taken_where_lists_agree() {
        let mut running = json!({"group": [
            {"name": "a", "acl": "x", "mtu": 1, "sessions": {"dns": [1]}},
            {"name": "b", "acl": null, "mtu": 2, "sessions": null},
        ]});
        let file = json!({"group": [
            {"name": "a", "acl": "y", "mtu": 9, "sessions": null},
            {"name": "b", "acl": "z", "mtu": 2, "sessions": {"dns": []}},
        ]});
        assert!(is_aligned(&running, &file, "group.*.acl") && is_aligned(&running, &file, "route"));
        take(&mut running, &file, "group.*.acl");
        take(&mut running, &file, "group.*.sessions.dns");
        let acl = |n: usize| running["group"][n]["acl"].clone();
        assert_eq!((acl(0), acl(1), &running["group"][0]["mtu"]), (json!("y"), json!("z"), &json!(1)));
        let sessions = |n: usize| running["group"][n]["sessions"].clone();
        assert_eq!((sessions(0), sessions(1)), (json!({"dns": [1]}), json!(null)), "the tables need a restart");
        let shifted = json!({"group": [{"name": "b"}, {"name": "a"}]});
        assert!(!is_aligned(&running, &shifted, "group.*.acl"));
        assert!(!is_aligned(&running, &json!({"group": [{"name": "a"}]}), "group.*.acl"));
    }
}
