//! The `isofold` program: arguments in, library calls, lines out.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
