//! The name of the branch that an id works on: a pure function of the id.

use sha2::{Digest, Sha256};

/// A slug longer than this many bytes is cut.
const LONGEST_SLUG: usize = 80;
/// Where a slug that is too long is cut, before `-` and seven hex digits follow.
const CUT_SLUG: usize = 72;

/// The branch (without `refs/heads/`) that belongs to `id`.
///
/// A tracked id `<scheme>:<path>#<number>[:<rest>]` gives `issue/<number>[-<slug of rest>]`,
/// everything else `issue/<slug of the id>`. A slug is the id in lower case with every run of
/// other than `a-z0-9` as one `-`, none at the ends; an empty one becomes `isolation`; one over 80
/// bytes is cut to 72 and gets the first seven hex digits of the SHA-256 of the whole id.
///
/// ```
/// use isofold::branch_name_of;
///
/// assert_eq!(branch_name_of("github:owner/repo#9"), "issue/9");
/// assert_eq!(branch_name_of("github:owner/repo#9:s1"), "issue/9-s1");
/// assert_eq!(branch_name_of("Feature: add a helper!"), "issue/feature-add-a-helper");
/// ```
pub fn branch_name_of(id: &str) -> String {
    let mut slug = match tracked_item(id) {
        Some(item) => slugify(&item),
        None => slugify(id),
    };
    if slug.is_empty() {
        slug.push_str("isolation");
    }
    if slug.len() > LONGEST_SLUG {
        slug.truncate(CUT_SLUG);
        let kept = slug.trim_end_matches('-').len();
        slug.truncate(kept);
        slug.push('-');
        let digest = Sha256::digest(id.as_bytes());
        let head = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        slug.push_str(&format!("{head:08x}")[..7]);
    }
    format!("issue/{slug}")
}

/// `number` or `number-rest` of a tracked id.
fn tracked_item(id: &str) -> Option<String> {
    let (scheme, after) = id.split_once(':')?;
    let mut letters = scheme.chars();
    let starts_well = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
    if !starts_well || !letters.all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c)) {
        return None;
    }
    let (path, item) = after.split_once('#')?;
    if path.is_empty() {
        return None;
    }
    let (number, rest) = match item.split_once(':') {
        Some((_, "")) => return None,
        Some((number, rest)) => (number, rest),
        None => (item, ""),
    };
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(format!("{number}-{rest}"))
}

/// Lower-case `a-z0-9`, everything else folded into single inner dashes.
fn slugify(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for c in text.to_lowercase().chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}
