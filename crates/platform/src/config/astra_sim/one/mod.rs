//! Files of ASTRA-sim 1.0 as a native platform file.
//!
//! A system file is lines of `key: value`; so is a network file of its Garnet backend, and one of
//! its analytical backend is JSON. Both together say what one native file says, so they become the
//! text of one, which is read as such: what a run uses can be seen, kept and changed. A key that
//! the format does not have is a problem; keys that nothing here uses, such as those of buses, are
//! warnings. A cycle is 1 ns, as there.
//!
//! Source: Rashidi et al., "ASTRA-SIM", ISPASS 2020, Tables III and IV; the READMEs of
//! `inputs/network/garnet` (astra-sim/astra-sim 94c3199c) and `inputs/system` (10723a27), and what
//! the files of these folders hold.

mod analytical;
mod dim;
mod flits;
mod garnet;
mod keys;
mod network;
mod system;
#[cfg(test)]
mod tests;

use crate::config::file::{self, Load};
use crate::config::native;
use crate::platform::Platform;
use declared::findings::Findings;
use graph::Problem;
use network::Network;
use std::path::Path;

/// A native platform file, and what of the files it came from has no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// The text of the platform file.
    pub text: String,
    /// Keys without effect, and what was missing.
    pub warnings: Vec<String>,
}

/// Whether one of two files is of version 1.0: a system file that is not JSON, or a network file
/// with the keys of one of its backends. What cannot be read is of no version.
pub(super) fn is_first(network: &str, system: &str, load: &Load<'_>) -> bool {
    let text = |path: &str| load(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let begins = |text: &str| text.trim_start().starts_with('{');
    text(network).is_some_and(|text| network::is_first(&text))
        || text(system).is_some_and(|text| !begins(&text) && text.contains("-splits:"))
}

/// The native platform file that says what a network file and a system file of ASTRA-sim 1.0 say.
///
/// # Errors
/// Every fault of both files.
pub fn convert(network: &str, system: &str) -> Result<Converted, Vec<Problem>> {
    convert_from(network, system, &file::disk)
}

/// [`convert`] with the files from somewhere else than the disk.
///
/// # Errors
/// Every fault of both files.
pub fn convert_from(
    network: &str,
    system: &str,
    load: &Load<'_>,
) -> Result<Converted, Vec<Problem>> {
    let (mut of_network, mut of_system) = (Findings::new(network), Findings::new(system));
    let found = network::read(load, &mut of_network);
    let choices = system::read(found.as_ref(), load, &mut of_system);
    of_network.merge(of_system);
    match (found, choices) {
        (Some(found), Some(choices)) if of_network.problems.is_empty() => Ok(Converted {
            text: written(network, system, &found, &choices),
            warnings: of_network.warnings,
        }),
        _ => Err(of_network.problems),
    }
}

/// The platform of both files.
pub(super) fn platform(
    network: &str,
    system: &str,
    load: &Load<'_>,
) -> Result<Platform, Vec<Problem>> {
    let converted = convert_from(network, system, load)?;
    let mut platform = native::from_yaml(&converted.text, network, &[])?;
    platform.warnings.splice(0..0, converted.warnings);
    Ok(platform)
}

fn written(network: &str, system: &str, found: &Network, choices: &str) -> String {
    let file = |path: &str| {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.replace(|letter: char| letter.is_control() || letter == '"' || letter == '\\', "?")
    };
    let blocks: Vec<String> =
        found.dims.iter().map(|dim| format!("{}({})", dim.block.name(), dim.size)).collect();
    let links: String = found.dims.iter().map(|dim| format!("  - {}\n", dim.link())).collect();
    let flits = match &found.flits[..] {
        [] => String::new(),
        lines => format!("network:\n  flit: {{{}}}\n", lines.join(", ")),
    };
    format!(
        "# Files of ASTRA-sim 1.0; a cycle is 1 ns.\nsource: \"{}, {}\"\ntopology: {}\nlinks:\n{links}{flits}{choices}",
        file(network),
        file(system),
        blocks.join("_"),
    )
}
