//! One test binary: the library and the program against real git.

mod support;

mod smoke;
mod vectors;
