//! Sessions: worktrees inside the tree that they were started from, for agent tools and for people.

pub(crate) mod hook;
mod place;
