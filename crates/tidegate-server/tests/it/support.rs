//! What all tests share: running the binary, directories, and waiting.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs `tidegate` with these arguments and this standard input.
pub fn tidegate(args: &[&str], input: impl AsRef<[u8]> + Send) -> Run {
    tidegate_with(args, &[], input)
}

/// As [`tidegate`], with these variables in the environment.
pub fn tidegate_with(args: &[&str], variables: &[(&str, &str)], input: impl AsRef<[u8]> + Send) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(args)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // Write and read at the same time, because neither pipe holds a whole trace.
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

/// A directory for one test, removed on drop.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until `is_done`, for at most a minute. `what` describes it in the failure.
#[track_caller]
pub fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    const POLL_INTERVAL: Duration = Duration::from_millis(5);
    const POLLS_MAX: usize = 12_000;
    let (_never, nothing) = mpsc::channel::<()>();
    for _ in 0..POLLS_MAX {
        if is_done() {
            return;
        }
        assert_eq!(nothing.recv_timeout(POLL_INTERVAL), Err(RecvTimeoutError::Timeout));
    }
    panic!("timed out: {what}");
}
