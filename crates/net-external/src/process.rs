//! The simulator's process: its socket, its patience, its end.
//!
//! Standard input and output of the process are the two ends of one Unix socket, so that a read can
//! time out. Standard error stays that of the caller. A process that can use shared memory exchanges
//! messages by that, and the socket only wakes who sleeps.

use crate::memory::{Memory, Wait};
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
/// Between two looks at a ring that is full.
const PAUSE: Duration = Duration::from_micros(50);
/// The variable of the environment with the file of shared memory.
const MEMORY: &str = "ARMILLARY_MEMORY";

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
    patience: Duration,
    /// Memory that the process may choose with its first message; `None` where the system has none.
    offered: Option<Memory>,
    /// The memory by which messages go; `None` where they go by the socket.
    memory: Option<Memory>,
}

impl Process {
    /// Starts it. A read or write that lasts longer than `patience` fails.
    pub fn start(command: &Command, patience: Duration) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(patience))?;
        ours.set_write_timeout(Some(patience))?;
        let offered = Memory::new().ok();
        let path = offered.as_ref().map(|memory| (MEMORY, memory.path()));
        let child = std::process::Command::new(&command.words[0])
            .args(&command.words[1..])
            .env_remove(MEMORY)
            .envs(path)
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let read = BufReader::with_capacity(BUFFER, ours.try_clone()?);
        Ok(Process { child, write: ours, read, patience, offered, memory: None })
    }

    /// The process has chosen: all further messages go by the memory if it `shares` that. Returns
    /// whether they can go as it has chosen.
    pub fn choose(&mut self, shares: bool) -> bool {
        let offered = self.offered.take();
        if shares {
            self.memory = offered;
            self.memory.iter_mut().for_each(Memory::forget_file);
        }
        self.memory.is_some() == shares
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.memory {
            Some(memory) => {
                let (mut left, mut wait) = (bytes, Wait::default());
                let begin = Instant::now();
                while !left.is_empty() {
                    let count = memory.put(left);
                    left = &left[count..];
                    if count > 0 && memory.must_ring() {
                        self.write.write_all(&[0])?;
                    }
                    if count > 0 {
                        wait = Wait::default();
                    } else if !wait.again() {
                        // The ring is full.
                        sleep(PAUSE);
                        if self.child.try_wait()?.is_some() {
                            return Err(io::ErrorKind::BrokenPipe.into());
                        }
                        if begin.elapsed() > self.patience {
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                    }
                }
                Ok(())
            }
            None => self.write.write_all(bytes),
        }
    }

    /// Fills `bytes`; how many came before the other side closed.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (mut filled, mut wait, mut closed) = (0, Wait::default(), false);
        while filled < bytes.len() {
            let Some(memory) = &mut self.memory else {
                match read(&mut self.read, &mut bytes[filled..])? {
                    0 => break,
                    count => filled += count,
                }
                continue;
            };
            let count = memory.take(&mut bytes[filled..]);
            filled += count;
            if count > 0 {
                wait = Wait::default();
            } else if closed {
                break;
            } else if !wait.again() {
                memory.sleeps(true);
                if !memory.has_bytes() {
                    // Bytes on the socket only wake.
                    closed = read(&mut self.read, &mut [0])? == 0;
                }
                memory.sleeps(false);
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

/// Reads some bytes; 0 if the other side has closed.
fn read(from: &mut BufReader<UnixStream>, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It ended before it read all that we sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(0),
            done => return done,
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
