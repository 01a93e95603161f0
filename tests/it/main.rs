//! One test binary: the library and the program against real git.

mod base_rule;
mod big_repo;
mod cli_fold;
mod cli_isolate;
mod cli_misc;
mod cli_remove;
mod combine_fuzz;
mod combine_report;
mod combine_table;
mod filesystems;
mod fold_history;
mod fold_random;
mod fold_write;
mod isolate_soak;
mod node_package;
mod progress;
mod protocol_schema;
mod public_api;
mod session;
mod smoke;
mod snapshot_fuzz;
mod snapshot_table;
mod submodules;
mod support;
mod tour;
mod vectors;
