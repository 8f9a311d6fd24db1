//! The simulator's process: its socket, its patience, its end.
//!
//! Standard input and output of the process are the two ends of one Unix socket, so that a read can
//! time out. Standard error stays that of the caller.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a simulator may take to end after its socket was closed.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Bytes read at once.
const BUFFER: usize = 1 << 16;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    text: String,
    words: Vec<String>,
}

/// Why a text is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// It has no word.
    Empty,
    /// A quote is open.
    OpenQuote,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CommandError::Empty => "the command is missing",
            CommandError::OpenQuote => "a quote in the command is not closed",
        })
    }
}

impl Command {
    /// Splits `text` into words as a POSIX shell does. No shell runs.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn parse(text: &str) -> Result<Command, CommandError> {
        let words = shlex::split(text).ok_or(CommandError::OpenQuote)?;
        if words.first().is_none_or(String::is_empty) {
            return Err(CommandError::Empty);
        }
        Ok(Command { text: text.to_string(), words })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A simulator that runs.
pub(crate) struct Process {
    child: Child,
    write: UnixStream,
    read: BufReader<UnixStream>,
}

impl Process {
    /// Starts it. A read or write that lasts longer than `patience` fails.
    pub fn start(command: &Command, patience: Duration) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(patience))?;
        ours.set_write_timeout(Some(patience))?;
        let child = std::process::Command::new(&command.words[0])
            .args(&command.words[1..])
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let read = BufReader::with_capacity(BUFFER, ours.try_clone()?);
        Ok(Process { child, write: ours, read })
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.write_all(bytes)
    }

    /// Fills `bytes`; how many came before the other side closed.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It ended before it read all that we sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Waits a little for its end after it has closed its output, and says how it ended.
    pub fn end(&mut self) -> String {
        match self.wait() {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => "ended".to_string(),
            },
            None => "closed its output and still runs".to_string(),
        }
    }

    fn wait(&mut self) -> Option<ExitStatus> {
        let until = Instant::now() + GRACE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => sleep(LOOK),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Process {
    /// Closes its input, which ends it; waits, kills what is left, and reaps it.
    fn drop(&mut self) {
        let _ = self.write.shutdown(std::net::Shutdown::Write);
        if self.wait().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        let command = Command::parse("sim --name 'a b' --rate=10").expect("a command");
        assert_eq!(command.words, ["sim", "--name", "a b", "--rate=10"]);
        assert_eq!(Command::parse("  "), Err(CommandError::Empty));
        assert_eq!(Command::parse("sim 'a"), Err(CommandError::OpenQuote));
    }
}
