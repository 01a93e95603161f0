//! `docs/protocol.schema.json`: every line that a test sees is checked against it.
//!
//! A small validator of the keywords that the schema uses; any other keyword is a panic, so that no
//! part of the schema goes unchecked. `node_package` runs a full one over the same lines.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::Value;

/// The schema as it is in the repository.
pub(crate) fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        serde_json::from_str(include_str!("../../../docs/protocol.schema.json")).expect("the schema is JSON")
    })
}

/// Checks all that a run printed: each line that is an event has to be in the schema with all its fields.
#[track_caller]
pub(crate) fn check_events(stdout: &str) {
    for line in stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if line.get("event").is_some() {
            check(&line);
        }
    }
}

/// Checks one line. Readers ignore what they do not know; what we print ourselves has to be described.
#[track_caller]
pub(crate) fn check(line: &Value) {
    let mut known = BTreeSet::new();
    if let Err(why) = validate(line, schema(), &mut known) {
        panic!("docs/protocol.schema.json does not allow {line}: {why}");
    }
    let undescribed = line.as_object().and_then(|line| line.keys().find(|name| !known.contains(*name)));
    assert_eq!(undescribed, None, "docs/protocol.schema.json has to describe this field of {line}");
    let names: Vec<&String> = line.as_object().map(|line| line.keys().collect()).unwrap_or_default();
    for (position, name) in names.iter().enumerate() {
        assert!(name.as_str() != "key" || position == 0, "the key comes first: {line}");
        assert!(name.as_str() != "id" || position == names.len() - 1, "the id comes last: {line}");
    }
}

/// Whether a value is what a schema says; `known` gathers the names of the fields that it describes.
pub(crate) fn validate(value: &Value, schema: &Value, known: &mut BTreeSet<String>) -> Result<(), String> {
    let rules = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Bool(false) => return Err("it may not be there".to_owned()),
        other => other.as_object().expect("a schema is an object"),
    };
    let list = |rule: &Value| rule.as_array().expect("a list").clone();
    let fail = |what: &Value| Err(format!("{value} is not {what}"));
    for (keyword, rule) in rules {
        match keyword.as_str() {
            "$ref" => validate(value, named(rule), known)?,
            "const" if value != rule => return fail(rule),
            "enum" if !list(rule).contains(value) => return fail(rule),
            "type" => {
                let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !types.iter().any(|name| is_of_type(value, name.as_str().expect("a type"))) {
                    return fail(rule);
                }
            }
            "minLength" => {
                let length = value.as_str().map_or(0, |text| text.chars().count());
                if value.is_string() && length < number(rule) {
                    return fail(&Value::from("long enough"));
                }
            }
            "minimum" if value.as_u64().is_none_or(|found| usize::try_from(found).is_ok_and(|n| n < number(rule))) => {
                return fail(&Value::from(format!("at least {rule}")));
            }
            "pattern" => pattern(value, rule.as_str().expect("a pattern"))?,
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    validate(item, rule, &mut BTreeSet::new())?;
                }
            }
            "required" => {
                let missing = list(rule).into_iter().find(|name| value.get(name.as_str().expect("a name")).is_none());
                if let Some(name) = missing {
                    return Err(format!("{name} is missing"));
                }
            }
            "properties" => {
                for (name, rule) in rule.as_object().expect("properties") {
                    if let Some(found) = value.get(name) {
                        validate(found, rule, &mut BTreeSet::new()).map_err(|why| format!("{name}: {why}"))?;
                        known.insert(name.clone());
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false));
                let listed = rules["properties"].as_object().expect("properties");
                if let Some(name) = value.as_object().and_then(|o| o.keys().find(|name| !listed.contains_key(*name))) {
                    return Err(format!("{name} is not known"));
                }
            }
            "allOf" => list(rule).iter().try_for_each(|rule| validate(value, rule, known))?,
            "anyOf" | "oneOf" => {
                let mut reasons = Vec::new();
                let mut right = Vec::new();
                for rule in list(rule) {
                    let mut found = BTreeSet::new();
                    match validate(value, &rule, &mut found) {
                        Ok(()) => right.push(found),
                        Err(why) => reasons.push(why),
                    }
                }
                if right.is_empty() || (keyword == "oneOf" && right.len() > 1) {
                    return Err(format!("{} alternatives fit ({})", right.len(), reasons.join("; ")));
                }
                known.extend(right.into_iter().flatten());
            }
            // Met, or only there for people.
            "const" | "enum" | "minimum" | "$schema" | "$defs" | "title" | "description" => {}
            other => panic!("the validator does not know {other:?}"),
        }
    }
    Ok(())
}

/// A definition by its `#/$defs/name`.
fn named(rule: &Value) -> &'static Value {
    let name = rule.as_str().and_then(|name| name.strip_prefix("#/$defs/")).expect("a definition of the schema");
    schema()["$defs"].get(name).unwrap_or_else(|| panic!("there is no definition {name}"))
}

fn number(rule: &Value) -> usize {
    usize::try_from(rule.as_u64().expect("a number")).expect("a small one")
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the validator does not know the type {other:?}"),
    }
}

/// The patterns of the schema, by hand.
fn pattern(value: &Value, pattern: &str) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Ok(()) };
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let right = match pattern {
        "^[^\\u0000-\\u001f\\u007f]*$" => !text.contains(|c: char| c.is_ascii_control()),
        "^[0-9a-f]{40}([0-9a-f]{24})?$" => [40, 64].contains(&text.len()) && hex(text),
        "^[0-9]+\\.[0-9]+\\.[0-9]+" => {
            let parts: Vec<&str> = text.splitn(3, '.').collect();
            parts.len() == 3 && parts.iter().all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
        }
        other => panic!("the validator does not know the pattern {other:?}"),
    };
    if right { Ok(()) } else { Err(format!("{text:?} does not match {pattern}")) }
}
