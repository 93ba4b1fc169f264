//! What the program tells people: lines on standard error, which whoever starts it keeps.

/// Tells something.
#[expect(clippy::print_stderr, reason = "a program in a guest has no other place to log to")]
pub fn log(words: &str) {
    eprintln!("walras-informant: {words}");
}

/// Prints what was asked for.
#[expect(clippy::print_stdout, reason = "what somebody asked for on the command line")]
pub fn print(words: &str) {
    println!("{words}");
}
