//! Runs the binary.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What a run left behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs `tidegate` with these arguments and this standard input.
pub fn tidegate(args: &[&str], input: impl AsRef<[u8]> + Send) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // Written beside the reading, for neither pipe holds a whole trace.
    let Output { status, stdout, stderr } = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A run that ends at a bad line does not read the rest.
            let _ = stdin.write_all(input.as_ref());
        });
        child.wait_with_output().expect("it ends")
    });
    let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
    Run { code: status.code(), out: text(stdout), err: text(stderr) }
}
