//! Puts the commit into the program, for `--version`.

fn main() {}
