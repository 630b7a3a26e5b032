//! Runs a load generator and collects its output.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const RUN_MAX: Duration = Duration::from_secs(120);

/// Runs a command with a time limit and returns its output. The error includes the output.
pub(super) fn of(mut command: Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| {
        format!("cannot start the load generator {program}: {error} (hint: scripts/bench-server installs it)")
    })?;
    let (sender, texts) = mpsc::channel();
    for stream in [child.stdout.take().map(boxed), child.stderr.take().map(boxed)].into_iter().flatten() {
        let sender = sender.clone();
        thread::spawn(move || sender.send(read(stream)));
    }
    drop(sender);
    let mut output = String::new();
    let mut is_late = false;
    for _ in 0..2 {
        match texts.recv_timeout(RUN_MAX) {
            Ok(text) => output.push_str(&text),
            Err(_) => is_late = true,
        }
    }
    if is_late {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match (is_late, status.success()) {
        (false, true) => Ok(output),
        (true, _) => Err(format!("{program} took longer than {} s", RUN_MAX.as_secs())),
        (false, false) => Err(format!("{program} ended with {status}: {}", shortened(&output))),
    }
}

/// The start of the output on one line, for an error message.
pub(super) fn shortened(output: &str) -> String {
    output.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

fn boxed(stream: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(stream)
}

fn read(mut stream: Box<dyn Read + Send>) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
