//! One test binary: the library and the program against real git.

mod support;

mod cli_fold;
mod cli_isolate;
mod cli_misc;
mod cli_remove;
mod smoke;
mod vectors;
