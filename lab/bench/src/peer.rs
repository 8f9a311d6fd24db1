//! ASTRA-sim's figures, recorded once: `data/astra_sim_speed.csv` says from which version and
//! machine.

use sim::BackendKind;

/// One row: one all-reduce of all NPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name.
    pub name: &'static str,
    /// Ours that answers to the peer's binary.
    pub backend: BackendKind,
    /// Block of every dimension, by the peer's name.
    pub block: &'static str,
    /// Size of each dimension.
    pub sizes: Vec<u32>,
    /// Bytes a rank.
    pub bytes: u64,
    /// Chunks.
    pub splits: u32,
    /// CPU seconds of the peer's process.
    pub cpu_s: f64,
    /// When every rank finished; `None` where the peer failed.
    pub finish_ns: Option<u64>,
    /// Messages simulated.
    pub messages: u64,
}

/// Every row, in the order of the file.
pub fn rows() -> Vec<Row> {
    let text = include_str!("../data/astra_sim_speed.csv");
    text.lines().filter(|line| !line.starts_with('#')).skip(1).map(row).collect()
}

fn row(line: &'static str) -> Row {
    let cells: Vec<&str> = line.split(',').collect();
    let number = |i: usize| cells[i].parse::<u64>().expect("a recorded figure");
    Row {
        name: cells[0],
        backend: cells[1].parse().expect("a backend"),
        block: cells[2],
        sizes: cells[3].split('x').map(|n| n.parse().expect("a size")).collect(),
        bytes: number(4),
        splits: number(5) as u32,
        cpu_s: cells[6].parse().expect("seconds"),
        finish_ns: cells[7].parse().ok(),
        messages: number(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of a ring all-reduce on every dimension: 2 (n - 1) a rank, chunk and dimension (the
    /// halving of each phase's dimension keeps the count), which ties the recorded columns to each
    /// other.
    #[test]
    fn recorded_messages_follow_from_shape_and_chunks() {
        for row in rows().iter().filter(|row| row.block == "Ring") {
            let npus: u64 = row.sizes.iter().map(|&n| u64::from(n)).product();
            let steps: u64 = row.sizes.iter().map(|&n| 2 * u64::from(n - 1)).sum();
            assert_eq!(row.messages, npus * steps * u64::from(row.splits), "{row:?}");
        }
        assert_eq!(rows().iter().filter(|row| row.finish_ns.is_none()).count(), 1);
    }
}
