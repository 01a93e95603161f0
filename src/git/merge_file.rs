//! The merge of three versions of one file's content, by the library.

use git2::{FileFavor, MergeFileInput, MergeFileOptions, merge_file};

use super::{Act, GitError};

/// Content larger than this is left to the git program.
const LARGEST: usize = 64 * 1024 * 1024;

/// The merge, where every way to compare lines that the library knows comes to the same clean text;
/// `None` where they differ, where both changed the same lines, and for binary content.
///
/// git compares by histogram, which the library lacks. Where three other ways agree on which lines
/// belong together, nothing in the text is ambiguous.
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
    Ok(agreed)
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
