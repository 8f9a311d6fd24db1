//! A file that packets are captured to while the network runs.

use crate::backends::Network;
use crate::error::Error;
use graph::Problem;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The first error of a file that is written elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    fn keep(&self, error: io::Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Whether everything could be written.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let error = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), |error| Err(Error::Output(error)))
    }
}

/// A file that keeps its first error, also that of its end.
struct Watched {
    file: BufWriter<File>,
    failure: Failure,
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| self.failure.keep(copy(error)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().inspect_err(|error| self.failure.keep(copy(error)))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The error is kept.
        let _ = self.flush();
    }
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::from(error.kind()), io::Error::from_raw_os_error)
}

/// Captures the packets of `network` to the file `path` from now on.
///
/// # Errors
/// A network without packets, or a file that cannot be written.
pub(crate) fn begin(network: &mut Network, path: &Path) -> Result<Failure, Error> {
    let Network::Packet(packets) = network else {
        let text = "only packets can be captured, and this network has none";
        return Err(Problem::new("", "pcap", text).help("--backend packet").into());
    };
    let file = BufWriter::new(File::create(path).map_err(Error::Output)?);
    let failure = Failure::default();
    let watched = Watched { file, failure: failure.clone() };
    packets.capture(Box::new(watched)).map_err(|text| Error::Output(io::Error::other(text)))?;
    Ok(failure)
}
