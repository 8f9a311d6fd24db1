//! Messages to a simulator and its answers, with every answer checked.
//!
//! A message that breaks the protocol ends the conversation. The failure quotes the last messages of
//! both sides.

use crate::process::{Command, Process};
use crate::protocol::{NEVER, Record, SIZE, TEXT_MAX, VERSION, kinds, routes};
use std::io;
use std::time::Duration;

/// Bytes that are sent at the latest.
const FULL: usize = 1 << 18;
/// In `c` of the simulator's HELLO: all further messages go by shared memory.
const MEMORY: u32 = 1;
/// Most bytes that a failure quotes of an answer that is not a message.
const QUOTED: usize = 80;

/// A simulator that answers.
pub(crate) struct Conversation {
    process: Process,
    patience: Duration,
    out: Vec<u8>,
    sent: Option<Record>,
    heard: Option<Record>,
    /// How it calls itself.
    pub name: String,
    /// Which routes it asked for.
    pub routes: u32,
}

impl Conversation {
    /// Starts the simulator and exchanges versions. `hello` is ours, with the `settings` behind it.
    ///
    /// # Errors
    /// Why there is no conversation.
    pub fn begin(
        command: &Command,
        patience: Duration,
        hello: Record,
        settings: &str,
    ) -> Result<Conversation, String> {
        let process = Process::start(command, patience)
            .map_err(|error| format!("the command cannot be started: {error}"))?;
        let mut talk = Conversation {
            process,
            patience,
            out: Vec::new(),
            sent: None,
            heard: None,
            name: String::new(),
            routes: routes::NONE,
        };
        talk.say(Record { y: settings.len() as u64, ..hello })?;
        talk.out.extend_from_slice(settings.as_bytes());
        talk.flush()?;
        let answer = talk.hear()?;
        talk.greeted(&answer)?;
        talk.routes = answer.b;
        talk.name = talk.text(answer.y)?;
        if !talk.process.choose(answer.c == MEMORY) {
            return Err(talk.broken("it uses shared memory, which this system does not have"));
        }
        Ok(talk)
    }

    /// Whether the first message that came is one that we can go on with.
    fn greeted(&self, answer: &Record) -> Result<(), String> {
        if answer.kind != kinds::HELLO {
            return Err(self.broken("the first message must be HELLO"));
        }
        if answer.a != VERSION {
            return Err(self.broken(&format!("version {} was expected", VERSION)));
        }
        if answer.b > routes::ALL {
            return Err(self.broken(&format!("it asks for routes of unknown kind {}", answer.b)));
        }
        if answer.c > MEMORY {
            return Err(
                self.broken(&format!("it asks for an exchange of unknown kind {}", answer.c))
            );
        }
        Ok(())
    }

    /// Sends `record` with the next batch.
    pub fn say(&mut self, record: Record) -> Result<(), String> {
        self.out.extend_from_slice(&record.encode());
        self.sent = Some(record);
        if self.out.len() >= FULL { self.flush() } else { Ok(()) }
    }

    /// Sends what waits.
    pub fn flush(&mut self) -> Result<(), String> {
        let sent = self.process.send(&self.out);
        self.out.clear();
        sent.map_err(|error| match timed_out(&error) {
            true => self.silent(),
            // The last message before it closed its input explains more.
            false => match self.hear() {
                Ok(answer) if answer.kind == kinds::HELLO => match self.greeted(&answer) {
                    Ok(()) => self.gone(),
                    Err(failure) => failure,
                },
                Ok(_) => self.gone(),
                Err(failure) => failure,
            },
        })
    }

    /// The next message that is not `BUSY`.
    pub fn hear(&mut self) -> Result<Record, String> {
        loop {
            let record = self.hear_any()?;
            match record.kind {
                kinds::BUSY => {}
                kinds::ERROR => {
                    let text = self.text(record.y)?;
                    return Err(format!("the simulator reports: {}", text.trim()));
                }
                _ => return Ok(record),
            }
        }
    }

    fn hear_any(&mut self) -> Result<Record, String> {
        let mut bytes = [0; SIZE];
        match self.process.receive(&mut bytes) {
            Ok(SIZE) => {}
            Ok(0) => return Err(self.gone()),
            Ok(count) => {
                let part = quoted(&bytes[..count]);
                let last = self.last();
                let how = self.process.end();
                return Err(format!("the simulator {how} within a message: {part}; {last}"));
            }
            Err(error) if timed_out(&error) => return Err(self.silent()),
            Err(_) => return Err(self.gone()),
        }
        let record = Record::decode(&bytes);
        let first = self.heard.is_none();
        let known = (kinds::DELIVERY..=kinds::ERROR).contains(&record.kind) && !first
            || matches!(record.kind, kinds::HELLO | kinds::ERROR) && first;
        if !known || record.text() > TEXT_MAX {
            return Err(format!("malformed message: {}; {}", quoted(&bytes), self.last()));
        }
        self.heard = Some(record);
        Ok(record)
    }

    fn text(&mut self, bytes: u64) -> Result<String, String> {
        let mut text = vec![0; bytes as usize];
        match self.process.receive(&mut text) {
            Ok(count) if count == text.len() => Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(_) => Err(self.gone()),
            Err(error) if timed_out(&error) => Err(self.silent()),
            Err(_) => Err(self.gone()),
        }
    }

    /// A failure: the last message breaks a rule.
    pub fn broken(&self, rule: &str) -> String {
        format!("{rule}; {}", self.last())
    }

    fn silent(&self) -> String {
        let seconds = self.patience.as_secs_f64();
        format!(
            "the simulator has sent nothing for {seconds} s (network.external.timeout); {}",
            self.last()
        )
    }

    fn gone(&mut self) -> String {
        let last = self.last();
        format!("the simulator {}; {last}", self.process.end())
    }

    fn last(&self) -> String {
        let shown = |record: Option<Record>| record.map_or("none".to_string(), |r| r.to_string());
        let [sent, heard] = [self.sent, self.heard].map(shown);
        format!("last message to it: {sent}; last message from it: {heard}")
    }
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Bytes as text where they are printable, else in hexadecimal.
fn quoted(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(QUOTED)];
    match std::str::from_utf8(shown) {
        Ok(text) if text.chars().all(|c| !c.is_control() || c == '\n') => format!("{text:?}"),
        _ => match bytes.first_chunk::<SIZE>() {
            Some(record) => Record::decode(record).to_string(),
            None => shown.iter().map(|byte| format!("{byte:02x} ")).collect(),
        },
    }
}

/// The time that a record gives, or `None` for never.
pub(crate) fn time_of(x: u64) -> Option<units::Time> {
    (x != NEVER).then_some(units::Time(x))
}
