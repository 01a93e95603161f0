//! The tables of right answers in `fixtures/vectors/`.

use std::path::Path;

use isofold::branch_name_of;
use isofold::options::Excludes;
use serde_json::Value;

fn cases(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors").join(name);
    let text = std::fs::read_to_string(path).expect("the table");
    let table: Value = serde_json::from_str(&text).expect("JSON");
    table["cases"].as_array().expect("cases").clone()
}

#[test]
fn branch_names() {
    let cases = cases("branch_names.json");
    assert!(cases.len() > 30);
    for case in cases {
        let id = case["id"].as_str().expect("an id");
        assert_eq!(branch_name_of(id), case["name"].as_str().expect("a name"), "{id:?}");
    }
}

#[test]
fn exclude_patterns() {
    let cases = cases("exclude_patterns.json");
    assert!(cases.len() > 10);
    for case in cases {
        let pattern = case["pattern"].as_str().expect("a pattern");
        let excludes = Excludes::new([pattern]).expect("compiles");
        let directory = pattern.ends_with('/');
        for (list, wanted) in [("hit", true), ("miss", false)] {
            for path in case[list].as_array().expect("paths") {
                let path = path.as_str().expect("a path");
                assert_eq!(excludes.matches(Path::new(path), directory), wanted, "{pattern:?} on {path:?}");
            }
        }
    }
}
