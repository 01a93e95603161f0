//! `docs/protocol.schema.json` itself: what it allows, and what it does not. Every other test checks what
//! it sees against it (`support::schema`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::schema::{check, schema, validate};
use crate::support::{Sandbox, lines, write};

fn allowed(line: &Value) -> bool {
    validate(line, schema(), &mut BTreeSet::new()).is_ok()
}

/// A line with other fields; `null` takes one away.
fn with(line: &Value, changes: &Value) -> Value {
    let mut other = line.clone();
    let object = other.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        if value.is_null() {
            object.remove(name);
        } else {
            object.insert(name.clone(), value.clone());
        }
    }
    other
}

#[test]
fn lines_that_are_wrong_are_refused() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.path("child");
    let isolated = sandbox.try_isolate("w", &parent, &child, &["--context", "k"]).expect("isolated", 0);
    let [status, started, _, finished] = &isolated.lines()[..] else { panic!("{isolated:?}") };
    write(&parent, "a", lines(&[(1, "parent")]));
    sandbox.commit_all(&parent, "parent");
    write(&child, "a", lines(&[(1, "child")]));
    let conflict = sandbox.try_fold(&parent, &child, &[]).expect("conflict", 1).last();
    write(&child, "a", lines(&[]));
    write(&child, "b", "b\n");
    let integrated = sandbox.try_fold(&parent, &child, &[]).expect("integrated", 0).last();
    let removed = sandbox.isofold(["remove", "--force", "--child", child.to_str().expect("UTF-8")]);
    let removed = removed.expect("removed", 0).last();
    let version = sandbox.isofold(["--version", "--json"]).last();
    for (line, wrong) in [
        (status, json!({"phase": "done"})),
        (status, json!({"label": null})),
        (status, json!({"label": 1})),
        (status, json!({"more": 1})),
        (status, json!({"key": 3})),
        (started, json!({"id": ""})),
        (started, json!({"event": "started"})),
        (finished, json!({"outcome": "integrated"})),
        (finished, json!({"child": null})),
        (finished, json!({"report": "a success has none"})),
        (finished, json!({"head": "abc"})),
        (finished, json!({"files": -1})),
        (finished, json!({"left_out": [1]})),
        (finished, json!({"outcome": "failed"})),
        (&conflict, json!({"report": null})),
        (&conflict, json!({"report": "two\nlines"})),
        (&conflict, json!({"parent": "/p"})),
        (&conflict, json!({"conflicts": null})),
        (&conflict, json!({"conflicts": [{"path": "a"}]})),
        (&conflict, json!({"engine": "magic"})),
        (&integrated, json!({"landing": "flight"})),
        (&integrated, json!({"not_folded": [{"path": "a"}]})),
        (&integrated, json!({"commits": ["x"]})),
        (&integrated, json!({"dry_run": false})),
        (&removed, json!({"outcome": "deleted"})),
        (&removed, json!({"saved": null})),
        (&removed, json!({"report": "a success has none"})),
        (&version, json!({"protocol": 0})),
        (&version, json!({"name": "other"})),
        (&version, json!({"version": "one"})),
    ] {
        check(line);
        let changed = with(line, &wrong);
        assert!(!allowed(&changed), "{wrong} is allowed in {line}");
    }
}

#[test]
#[should_panic(expected = "has to describe this field")]
fn a_field_that_the_schema_does_not_describe_is_found() {
    check(&json!({"event": "isolation-finished", "outcome": "failed", "report": "r", "surprise": 1}));
}

#[test]
#[should_panic(expected = "the key comes first")]
fn a_key_that_is_not_first_is_found() {
    check(&json!({"event": "isolation-started", "key": "k"}));
}
