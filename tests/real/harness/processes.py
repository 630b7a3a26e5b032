"""A child process, with its output in files."""

import pathlib
import signal
import subprocess

from .waiting import DEADLINE_S, wait_for


class Process:
    """Runs a command until it is stopped. Standard output goes to `LOG.out`, standard error to `LOG.err`."""

    def __init__(self, command, log, env=None, cwd=None):
        self.command = [str(part) for part in command]
        self.out = log.with_suffix(".out")
        self.err = log.with_suffix(".err")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=cwd
            )

    @property
    def pid(self):
        return self.child.pid

    def stdout(self):
        return self.out.read_text(errors="replace")

    def stderr(self):
        return self.err.read_text(errors="replace")

    def must_run(self):
        """Fails with the output of the process if it has ended."""
        if self.child.poll() is not None:
            raise AssertionError(
                f"{self.command[0]} ended with {self.child.returncode}\n{self.stdout()}\n{self.stderr()}"
            )

    def signal(self, which):
        self.child.send_signal(which)

    def suspend(self):
        """Suspends the process. Its connections stay open, as on a machine that hangs.

        On a busy machine, its threads run for a while after the signal was sent, so this waits until they are suspended.
        """
        self.signal(signal.SIGSTOP)
        wait_for("all threads are suspended", self.is_suspended)

    def is_suspended(self):
        states = pathlib.Path(f"/proc/{self.pid}/task").glob("*/stat")
        return all(state.read_text().rpartition(")")[2].split()[0] == "T" for state in states)

    def resume(self):
        self.signal(signal.SIGCONT)

    def wait(self, timeout_s=DEADLINE_S):
        """Waits for the process to end by itself and returns its exit code."""
        return self.child.wait(timeout_s)

    def kill(self):
        """Kills the process immediately, as a power cut would."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.wait(DEADLINE_S)

    def stop(self):
        """Stops the process, kills it if needed, and returns its exit code."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.child.returncode
