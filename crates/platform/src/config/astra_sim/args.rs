//! The command-line flags of ASTRA-sim's analytical front ends.

use declared::findings::did_you_mean;
use graph::Problem;

/// Flags, with the peer's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct AstraSimArgs {
    /// `--workload-configuration`: rank i reads `PREFIX.i.et`.
    pub workload: String,
    /// `--system-configuration`.
    pub system: String,
    /// `--network-configuration`.
    pub network: String,
    /// `--remote-memory-configuration`; files of version 1.0 need none.
    pub memory: String,
    /// `--comm-group-configuration`; any path containing `empty` means none, as in the peer.
    pub comm_group: Option<String>,
    /// `--logical-topology-configuration` (of the ns-3 front end).
    pub logical_topology: Option<String>,
    /// `--num-queues-per-dim`.
    pub num_queues_per_dim: u32,
    /// `--rendezvous-protocol`.
    pub rendezvous: bool,
    /// `--injection-scale`: multiplies `endpoint-delay`.
    pub injection_scale: f64,
    /// `--num-passes` of version 1.0: how often a text workload runs.
    pub num_passes: u32,
    /// Flags given that do nothing here or in the peer.
    pub without_effect: Vec<String>,
}

impl Default for AstraSimArgs {
    fn default() -> AstraSimArgs {
        AstraSimArgs {
            workload: String::new(),
            system: String::new(),
            network: String::new(),
            memory: String::new(),
            comm_group: None,
            logical_topology: None,
            num_queues_per_dim: 1,
            rendezvous: false,
            injection_scale: 1.0,
            num_passes: 1,
            without_effect: Vec::new(),
        }
    }
}

/// Flags with a meaning here, then those the peer parses to no effect on the result.
const FLAGS: [&str; 18] = [
    "workload-configuration",
    "system-configuration",
    "network-configuration",
    "remote-memory-configuration",
    "comm-group-configuration",
    "logical-topology-configuration",
    "num-queues-per-dim",
    "rendezvous-protocol",
    "injection-scale",
    "num-passes",
    "comm-scale",
    "compute-scale",
    "logging-configuration",
    "logging-folder",
    "total-stat-rows",
    "stat-row",
    "path",
    "run-name",
];

/// Flags of our own, which are taken out before these are read.
const OURS: [&str; 3] = ["backend", "json", "no-fold"];

impl AstraSimArgs {
    /// Reads `--flag=value` and `--flag value`; the files are required, but memory only by
    /// files of version 2; a flag without meaning is refused.
    ///
    /// # Errors
    /// Every fault of the command line.
    pub fn parse<S: AsRef<str>>(arguments: &[S]) -> Result<AstraSimArgs, Vec<Problem>> {
        let mut args = AstraSimArgs::default();
        let mut problems = Vec::new();
        let mut words = arguments.iter().map(AsRef::as_ref).peekable();
        while let Some(word) = words.next() {
            let (flag, given) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_string())),
                None => (word, None),
            };
            let name = flag.strip_prefix("--").filter(|name| FLAGS.contains(name));
            let Some(name) = name else {
                problems.push(unknown(flag));
                words.next_if(|next| {
                    given.is_none() && flag.starts_with("--") && !next.starts_with("--")
                });
                continue;
            };
            let value =
                given.or_else(|| words.next_if(|next| !next.starts_with("--")).map(str::to_string));
            match value.or_else(|| (name == "rendezvous-protocol").then(|| "true".to_string())) {
                Some(value) => {
                    args.set(name, value).unwrap_or_else(|problem| problems.push(problem))
                }
                None => problems.push(
                    Problem::new("", flag, "the flag has no value").help(format!("{flag}=VALUE")),
                ),
            }
        }
        args.required(&mut problems);
        if problems.is_empty() { Ok(args) } else { Err(problems) }
    }

    /// A warning about flags that do nothing.
    pub(super) fn ignored(&self) -> Option<String> {
        let flags = &self.without_effect;
        (!flags.is_empty()).then(|| format!("flags without effect, ignored: {}", flags.join(", ")))
    }

    fn required(&self, problems: &mut Vec<Problem>) {
        let files = [&self.workload, &self.system, &self.network, &self.memory];
        let absent: Vec<&str> =
            FLAGS.into_iter().zip(files).filter(|(_, file)| file.is_empty()).map(|f| f.0).collect();
        // Files of version 1.0 need no memory, which only their content shows.
        if absent != [FLAGS[3]] {
            problems.extend(absent.into_iter().map(missing));
        }
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Problem> {
        match name {
            "workload-configuration" => self.workload = value,
            "system-configuration" => self.system = value,
            "network-configuration" => self.network = value,
            "remote-memory-configuration" => self.memory = value,
            "comm-group-configuration" => self.comm_group = Some(value),
            "logical-topology-configuration" => self.logical_topology = Some(value),
            "num-queues-per-dim" => self.num_queues_per_dim = count(name, &value)?,
            "num-passes" => self.num_passes = count(name, &value)?,
            "rendezvous-protocol" => {
                self.rendezvous =
                    truth(&value).ok_or_else(|| refused(name, &value, "true, false"))?;
            }
            "injection-scale" => {
                let parsed = value.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
                self.injection_scale =
                    parsed.ok_or_else(|| refused(name, &value, "a number from 0"))?;
            }
            _ => self.without_effect.push(format!("--{name}")),
        }
        Ok(())
    }
}

/// A flag that is required.
pub(super) fn missing(flag: &str) -> Problem {
    Problem::new("", format!("--{flag}"), "the flag is missing").help(format!("--{flag}=PATH"))
}

fn count(name: &str, value: &str) -> Result<u32, Problem> {
    let parsed = value.parse().ok().filter(|&n| n > 0);
    parsed.ok_or_else(|| refused(name, value, "a whole number from 1"))
}

fn truth(value: &str) -> Option<bool> {
    match value {
        "true" | "True" | "t" | "T" | "1" => Some(true),
        "false" | "False" | "f" | "F" | "0" => Some(false),
        _ => None,
    }
}

fn refused(name: &str, value: &str, allowed: &str) -> Problem {
    Problem::new("", format!("--{name}"), format!("\"{value}\" is not allowed")).help(allowed)
}

fn unknown(flag: &str) -> Problem {
    let dashed: Vec<String> = FLAGS.iter().chain(&OURS).map(|name| format!("--{name}")).collect();
    let message = format!("unknown flag{}", did_you_mean(flag, dashed.iter().map(String::as_str)));
    Problem::new("", flag, message).help(dashed.join(", "))
}
