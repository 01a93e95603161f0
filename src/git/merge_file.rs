//! The merge of three versions of one file's content, by the library.

use std::collections::HashMap;
use std::ops::Range;

use git2::{FileFavor, MergeFileInput, MergeFileOptions, merge_file};
use gix_imara_diff::sources::byte_lines;
use gix_imara_diff::{Algorithm, Diff, Hunk, InternedInput};

use super::{Act, GitError};

/// Content larger than this is left to the git program.
const LARGEST: usize = 64 * 1024 * 1024;

/// The merge, where every way to compare lines that the library knows comes to the same clean text;
/// `None` where they differ, where both changed the same lines, and for binary content.
///
/// git compares by histogram, which the library lacks. Text of many lines that are alike can conflict by
/// histogram alone: [`by_histogram`] has to agree too.
pub(crate) fn agreed(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Option<Vec<u8>>, GitError> {
    if [base, ours, theirs].iter().any(|content| content.contains(&0) || content.len() > LARGEST) {
        return Ok(None);
    }
    let mut agreed: Option<Vec<u8>> = None;
    for how in [Lines::Myers, Lines::Patience, Lines::Minimal] {
        let Some(merged) = merge(base, ours, theirs, how, FileFavor::Normal)? else { return Ok(None) };
        if agreed.as_ref().is_some_and(|known| *known != merged) {
            return Ok(None);
        }
        agreed = Some(merged);
    }
    Ok(agreed.filter(|merged| by_histogram(base, ours, theirs).as_ref() == Some(merged)))
}

/// The merge by histogram, where what the sides changed is the same or lies apart, with a line between
/// that each version has once; `None` elsewhere. Without such a line it depends on details of git's which
/// lines belong together.
fn by_histogram<'a>(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Option<Vec<u8>> {
    let hunks = |side| {
        let input = InternedInput::new(byte_lines(base), byte_lines(side));
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_no_heuristic(&input);
        diff.hunks().collect::<Vec<Hunk>>()
    };
    let lines = |content: &'a [u8]| byte_lines(content).collect::<Vec<&'a [u8]>>();
    let range = |range: &Range<u32>| range.start as usize..range.end as usize;
    let (base_lines, our_lines, their_lines) = (lines(base), lines(ours), lines(theirs));
    let (our_hunks, their_hunks) = (hunks(ours), hunks(theirs));
    let (mut mine, mut yours) = (our_hunks.iter().peekable(), their_hunks.iter().peekable());
    let (mut merged, mut at) = (Vec::with_capacity(base.len()), 0);
    let times = |lines: &[&'a [u8]]| {
        let mut times: HashMap<&'a [u8], u32> = HashMap::new();
        for line in lines {
            *times.entry(line).or_default() += 1;
        }
        times
    };
    let times = [times(&base_lines), times(&our_lines), times(&their_lines)];
    let anchor = |line: &&[u8]| times.iter().all(|times| times.get(line) == Some(&1));
    let mut last = None;
    loop {
        let (whose, before, new) = match (mine.peek(), yours.peek()) {
            (None, None) => break,
            (Some(one), Some(other))
                if one.before.start <= other.before.end && other.before.start <= one.before.end =>
            {
                let (new, same) = (&our_lines[range(&one.after)], &their_lines[range(&other.after)]);
                if one.before != other.before || new != same {
                    return None;
                }
                yours.next();
                (Whose::Both, range(&mine.next()?.before), new)
            }
            (Some(one), other) if other.is_none_or(|other| one.before.start < other.before.start) => {
                let one = mine.next()?;
                (Whose::Ours, range(&one.before), &our_lines[range(&one.after)])
            }
            _ => {
                let other = yours.next()?;
                (Whose::Theirs, range(&other.before), &their_lines[range(&other.after)])
            }
        };
        let between = &base_lines[at..before.start];
        if last.is_some_and(|last| last != whose || whose == Whose::Both) && !between.iter().any(anchor) {
            return None;
        }
        last = Some(whose);
        merged.extend_from_slice(&between.concat());
        merged.extend_from_slice(&new.concat());
        at = before.end;
    }
    merged.extend_from_slice(&base_lines[at..].concat());
    Some(merged)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    Theirs,
    Both,
}

/// The merge, with our lines wherever both changed the same ones; `None` for binary content.
pub(crate) fn leaning_to_ours(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Option<Vec<u8>>, GitError> {
    if [base, ours, theirs].iter().any(|content| content.contains(&0) || content.len() > LARGEST) {
        return Ok(None);
    }
    merge(base, ours, theirs, Lines::Patience, FileFavor::Ours)
}

/// How lines are compared.
#[derive(Clone, Copy)]
enum Lines {
    Myers,
    Patience,
    Minimal,
}

fn merge(base: &[u8], ours: &[u8], theirs: &[u8], how: Lines, favor: FileFavor) -> Result<Option<Vec<u8>>, GitError> {
    let [mut first, mut second, mut third] = [MergeFileInput::new(), MergeFileInput::new(), MergeFileInput::new()];
    first.content(base);
    second.content(ours);
    third.content(theirs);
    let mut options = MergeFileOptions::new();
    options.favor(favor);
    match how {
        Lines::Myers => {}
        Lines::Patience => drop(options.patience(true)),
        Lines::Minimal => drop(options.minimal(true)),
    }
    let merged = merge_file(&first, &second, &third, Some(&mut options)).act(|| "cannot merge a file".to_owned())?;
    Ok(merged.is_automergeable().then(|| merged.content().to_vec()))
}
