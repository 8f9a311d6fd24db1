//! Text to layers, with every fault by line and column.

use super::dialect::{self, Reach};
use super::labels::{self, INNER_DATA, Line, MODEL_GROUP};
use super::layers::{
    Blocks, KINDS, Layer, LayerParallelism, Layers, Parallelism, Part, Recompute, Update,
};
use super::{MOST_LAYERS, MOST_TIME};
use crate::chakra::problems::Problems;
use graph::{CollectiveKind, Problem};

pub(super) const COLUMNS: [&str; 13] = [
    "name",
    "reserved",
    "forward compute time",
    "forward collective",
    "forward bytes",
    "input gradient compute time",
    "input gradient collective",
    "input gradient bytes",
    "weight gradient compute time",
    "weight gradient collective",
    "weight gradient bytes",
    "update time",
    "parallelisation of the layer",
];

/// Reads the text `bytes`, `file` standing for its name.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(bytes: &[u8], file: &str) -> Result<Layers, Vec<Problem>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let place = format!("byte {}", error.valid_up_to());
        vec![Problem::new(file, place, "not a text file").help("UTF-8")]
    })?;
    let mut parser = Parser { file, problems: Problems::default() };
    let layers = parser.file(text);
    match layers {
        Some(layers) if parser.problems.is_empty() => Ok(layers),
        _ => Err(parser.problems.into_list()),
    }
}

pub(super) struct Parser<'a> {
    file: &'a str,
    problems: Problems,
}

impl Parser<'_> {
    /// Adds a problem; nothing, for a `?` behind it.
    pub(super) fn refuse<T>(
        &mut self,
        place: String,
        message: String,
        help: impl Into<String>,
    ) -> Option<T> {
        self.problems.push(Problem::new(self.file, place, message).help(help));
        None
    }

    fn file(&mut self, text: &str) -> Option<Layers> {
        let lines = text
            .lines()
            .zip(1usize..)
            .map(|(line, number)| (number, line.split_whitespace().collect()));
        let mut lines = lines.filter(|(_, words): &Line| !words.is_empty());
        let Some(first) = lines.next() else {
            return self.refuse(
                String::new(),
                "the file is empty".into(),
                "a text workload of ASTRA-sim 1.0",
            );
        };
        let first = labels::head(0, first);
        let parallelism = self.parallelism(&first);
        let second = lines.next().map(|line| labels::head(1, line));
        let count = second.and_then(|line| self.count(&line, first.0));
        if labels::begins(text) {
            let layers = self.labelled(&mut lines, parallelism.as_ref())?;
            self.compare_counts(count, layers.len() as u64);
            return self.whole(parallelism?, layers, first.0);
        }
        let customized = matches!(parallelism, None | Some(Parallelism::HybridCustomized));
        let mut layers = Vec::new();
        let mut described = 0u64;
        for line in lines {
            if self.problems.is_full() {
                return None;
            }
            described += 1;
            layers.extend(self.layer(&line, customized, parallelism.is_some()));
        }
        self.compare_counts(count, described);
        self.whole(parallelism?, layers, first.0)
    }

    /// All layers under the first line, which is line `first`.
    fn whole(
        &mut self,
        parallelism: Parallelism,
        layers: Vec<Layer>,
        first: usize,
    ) -> Option<Layers> {
        let layers = self.dialect(Layers { parallelism, layers }, first)?;
        // Which layers the first line may name is known only where all of them are.
        if self.problems.is_empty() {
            self.layers_of_header(&layers, first);
        }
        Some(layers)
    }

    fn compare_counts(&mut self, count: Option<(usize, u64)>, described: u64) {
        match count {
            None if self.problems.is_empty() => {
                self.refuse::<()>(
                    "line 2".into(),
                    "the number of layers is missing".into(),
                    "a number",
                );
            }
            Some((line, count)) if count != described => {
                let message =
                    format!("the number of layers is {count}, but {described} layers follow");
                self.refuse::<()>(
                    format!("line {line}"),
                    message,
                    format!("{described}, or {count} layers"),
                );
            }
            _ => {}
        }
    }

    /// The number of layers and the line it stands in.
    fn count(&mut self, (line, words): &Line, first: usize) -> Option<(usize, u64)> {
        let allowed = format!("one number, 1 to {MOST_LAYERS}, after line {first}");
        let [word] = words[..] else {
            let message = format!("expected the number of layers, found {} words", words.len());
            return self.refuse(format!("line {line}"), message, allowed);
        };
        match word.parse::<u64>() {
            Ok(count) if (1..=MOST_LAYERS).contains(&count) => Some((*line, count)),
            _ => self.refuse(
                format!("line {line}"),
                format!("the number of layers is \"{}\"", short(word)),
                allowed,
            ),
        }
    }

    fn parallelism(&mut self, (line, words): &Line) -> Option<Parallelism> {
        let mut header = Header { line: *line, word: words[0], rest: &words[1..] };
        let parallelism = match header.word {
            "HYBRID_TRANSFORMER" | "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
                if dialect::is_header(header.rest) =>
            {
                Parallelism::SimAi(self.simai(&mut header)?)
            }
            "DATA" => Parallelism::Data,
            "MODEL" => Parallelism::Model,
            "HYBRID_DATA_MODEL" => Parallelism::HybridDataModel,
            "HYBRID_MODEL_DATA" => Parallelism::HybridModelData,
            "HYBRID_CUSTOMIZED" => Parallelism::HybridCustomized,
            "MICRO" => Parallelism::Micro,
            "DISTRIBUTED_INFERENCE" => Parallelism::DistributedInference,
            "HYBRID_TRANSFORMER" => {
                Parallelism::Transformer { blocks: self.blocks(&mut header)?, recompute: None }
            }
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD" => Parallelism::Transformer {
                blocks: self.blocks(&mut header)?,
                recompute: Some(Recompute {
                    checkpoints: self.list(&mut header, "checkpoints:")?,
                    starts: self.list(&mut header, "checkpoint_initiates:")?,
                }),
            },
            "HYBRID_DLRM" | "HYBRID_DLRM_ENHANCED" => Parallelism::Dlrm {
                last_bottom: self
                    .number(&mut header, "the index of the last layer of the bottom MLP")?,
                enhanced: header.word == "HYBRID_DLRM_ENHANCED",
            },
            other => {
                let message = format!("the parallelisation is \"{}\"", short(other));
                return self.refuse(format!("line {line}"), message, Parallelism::WORDS.join(", "));
            }
        };
        match header.rest.first() {
            None => Some(parallelism),
            Some(word) => {
                let message = format!("\"{}\" follows {}", short(word), header.word);
                self.refuse(
                    format!("line {line}"),
                    message,
                    format!("{}; {NO_SIMAI}", form(header.word)),
                )
            }
        }
    }

    fn blocks(&mut self, header: &mut Header) -> Option<Blocks> {
        let inner = self.group(header, MODEL_GROUP)?;
        let more = header.rest.first() == Some(&INNER_DATA);
        let below = if more { self.group(header, INNER_DATA)? } else { 1 };
        Some(Blocks { below, inner })
    }

    fn group(&mut self, header: &mut Header, key: &str) -> Option<u32> {
        self.key(header, key)?;
        match self.number(header, key)? {
            0 => {
                let message = format!("{} is 0", key.trim_end_matches(':'));
                self.refuse(header.place(), message, "1 or more NPUs")
            }
            group => Some(group),
        }
    }

    fn key(&mut self, header: &mut Header, key: &str) -> Option<()> {
        match header.rest.split_first() {
            Some((word, rest)) if *word == key => {
                header.rest = rest;
                Some(())
            }
            found => {
                let found =
                    found.map_or("nothing".into(), |(word, _)| format!("\"{}\"", short(word)));
                let message = format!("expected {key}, found {found}");
                self.refuse(header.place(), message, format!("{}; {NO_SIMAI}", form(header.word)))
            }
        }
    }

    pub(super) fn number(&mut self, header: &mut Header, what: &str) -> Option<u32> {
        let Some((word, rest)) = header.rest.split_first() else {
            return self.refuse(header.place(), format!("{what} is missing"), form(header.word));
        };
        header.rest = rest;
        match word.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                let message = format!("expected {what}, found \"{}\"", short(word));
                self.refuse(header.place(), message, format!("a number, 0 to {}", u32::MAX))
            }
        }
    }

    /// `key: how-many layer layer ...`
    fn list(&mut self, header: &mut Header, key: &str) -> Option<Vec<u32>> {
        self.key(header, key)?;
        let count = self.number(header, key)?;
        let mut layers = Vec::new();
        for _ in 0..count {
            layers.push(self.number(header, &format!("the next of {count} layers of {key}"))?);
        }
        Some(layers)
    }

    /// Reads a layer. Where the first line is wrong, the last column is not asked for.
    fn layer(&mut self, (line, words): &Line, customized: bool, sure: bool) -> Option<Layer> {
        let least = COLUMNS.len() - usize::from(!customized || !sure);
        let most = COLUMNS.len() - usize::from(!customized);
        if !(least..=most).contains(&words.len()) {
            let message = format!("a layer of {} columns", words.len());
            let help = format!("{most}: {}", COLUMNS[..most].join(", "));
            return self.refuse(format!("line {line}"), message, help);
        }
        self.described(&Row { line: *line, words, places: None })
    }

    /// A layer whose columns are there.
    pub(super) fn described(&mut self, row: &Row) -> Option<Layer> {
        // All three are read before one fails, so that every fault of a line is named.
        let parts = [2, 5, 8].map(|column| self.part(row, column));
        let (reserved, update, own) = (self.reserved(row), self.time(row, 11), self.own(row));
        let [forward, input_gradient, weight_gradient] = parts;
        Some(Layer {
            name: row.words[0].to_string(),
            reserved: reserved?,
            forward: forward?,
            input_gradient: input_gradient?,
            weight_gradient: weight_gradient?,
            update: Update::Whole(update?),
            own: own?,
        })
    }

    fn part(&mut self, row: &Row, column: usize) -> Option<Part> {
        let (compute, collective) = (self.time(row, column), self.collective(row, column + 1));
        let bytes = self.column(row, column + 2, u64::MAX, "bytes");
        let (collective, reach) = collective?;
        Some(Part { compute: compute?, collective, bytes: bytes?, reach })
    }

    fn time(&mut self, row: &Row, column: usize) -> Option<u64> {
        self.column(row, column, MOST_TIME, "whole ns")
    }

    fn column(&mut self, row: &Row, column: usize, most: u64, unit: &str) -> Option<u64> {
        match row.words[column].parse::<u64>() {
            Ok(value) if value <= most => Some(value),
            _ => self.wrong(row, column, format!("0 to {most} {unit}")),
        }
    }

    fn wrong<T>(&mut self, row: &Row, column: usize, help: String) -> Option<T> {
        let place = row.place(column);
        self.refuse(place, format!("the value is \"{}\"", short(row.words[column])), help)
    }

    fn reserved(&mut self, row: &Row) -> Option<i64> {
        match row.words[1].parse() {
            Ok(number) => Some(number),
            Err(_) => self.wrong(row, 1, "a whole number, usually -1".into()),
        }
    }

    fn collective(&mut self, row: &Row, column: usize) -> Option<(Option<CollectiveKind>, Reach)> {
        let own = KINDS.iter().find(|(word, _)| *word == row.words[column]);
        let other = dialect::WORDS.iter().find(|(word, ..)| *word == row.words[column]);
        match (own, other) {
            (Some((_, kind)), _) => Some((*kind, Reach::Own)),
            (None, Some((_, kind, reach))) => Some((Some(*kind), *reach)),
            (None, None) => self.wrong(row, column, KINDS.map(|(word, _)| word).join(", ")),
        }
    }

    fn own(&mut self, row: &Row) -> Option<Option<LayerParallelism>> {
        let Some(word) = row.words.get(12) else { return Some(None) };
        match LayerParallelism::ALL.iter().find(|(known, _)| known == word) {
            Some((_, kind)) => Some(Some(*kind)),
            None => self.wrong(row, 12, LayerParallelism::ALL.map(|(word, _)| word).join(", ")),
        }
    }

    /// The layers that the first line names must be there, and a recomputation must find its
    /// checkpoint.
    fn layers_of_header(&mut self, layers: &Layers, line: usize) {
        let place = format!("line {line}");
        for fault in layers.header_faults() {
            self.refuse::<()>(place.clone(), fault.0, fault.1);
        }
    }
}

impl Layers {
    /// Faults in the statements of the first line about layers: message and allowed values.
    pub(super) fn header_faults(&self) -> Vec<(String, String)> {
        let layers = self.layers.len();
        match &self.parallelism {
            Parallelism::Dlrm { last_bottom, .. }
                if !(1..layers.saturating_sub(1)).contains(&(*last_bottom as usize)) =>
            {
                let message = format!(
                    "invalid last layer of the bottom MLP: {last_bottom} of {layers} layers"
                );
                let help = match layers {
                    0..3 => "at least an embedding, a bottom and a top layer".into(),
                    _ => format!(
                        "1 to {}, counting from 0: layer 0 is the embedding, the top MLP follows",
                        layers - 2
                    ),
                };
                vec![(message, help)]
            }
            Parallelism::Transformer { recompute: Some(recompute), .. } => recompute.faults(layers),
            _ => Vec::new(),
        }
    }
}

impl Recompute {
    fn faults(&self, layers: usize) -> Vec<(String, String)> {
        let named = self.checkpoints.iter().map(|layer| ("checkpoints", *layer));
        let named = named.chain(self.starts.iter().map(|layer| ("checkpoint_initiates", *layer)));
        let mut faults = Vec::new();
        for (key, layer) in named.filter(|(_, layer)| *layer as usize >= layers) {
            faults.push((
                format!("{key} names layer {layer} of {layers}"),
                format!("0 to {}", layers - 1),
            ));
        }
        let starts = sorted(&self.starts);
        for (start, from) in self.ranges() {
            // ASTRA-sim 1.0 runs off its layers, or forgets the ones between, where this isn't so.
            let next =
                from.and_then(|from| starts.get(starts.partition_point(|&other| other <= from)));
            if next != Some(&start) {
                let message = format!(
                    "layer {start} initiates a recomputation without a checkpoint of its own below it"
                );
                let help = "a checkpoint below each layer that initiates, and above the next lower one that does";
                faults.push((message, help.into()));
            }
        }
        faults
    }

    /// Each layer that starts a recomputation, ascending, with the checkpoint where that begins.
    pub(super) fn ranges(&self) -> Vec<(u32, Option<u32>)> {
        let checkpoints = sorted(&self.checkpoints);
        let begin = |start: u32| {
            let last = checkpoints.partition_point(|&layer| layer <= start).checked_sub(1)?;
            // A layer that is a checkpoint itself would begin at itself and never reach its own
            // input gradient.
            Some(checkpoints[last]).filter(|&layer| layer < start)
        };
        sorted(&self.starts).into_iter().map(|start| (start, begin(start))).collect()
    }
}

fn sorted(layers: &[u32]) -> Vec<u32> {
    let mut layers = layers.to_vec();
    layers.sort_unstable();
    layers.dedup();
    layers
}

/// The first line while it is read.
pub(super) struct Header<'w> {
    pub(super) line: usize,
    pub(super) word: &'w str,
    pub(super) rest: &'w [&'w str],
}

impl Header<'_> {
    pub(super) fn place(&self) -> String {
        format!("line {}", self.line)
    }
}

/// The words of a layer by column.
pub(super) struct Row<'w> {
    pub(super) line: usize,
    pub(super) words: &'w [&'w str],
    /// The line of each column, where they have lines of their own.
    pub(super) places: Option<[usize; COLUMNS.len() - 1]>,
}

impl Row<'_> {
    fn place(&self, column: usize) -> String {
        let what = COLUMNS[column];
        match self.places {
            Some(places) => format!("line {} ({what})", places[column]),
            None => format!("line {}, column {} ({what})", self.line, column + 1),
        }
    }
}

const NO_SIMAI: &str =
    "ep, pp, vpp, ga and all_gpus belong to SimAI, which has them with HYBRID_TRANSFORMER only";

/// How the first line goes on after `word`.
fn form(word: &str) -> String {
    match word {
        "HYBRID_TRANSFORMER" => format!("{word} model_parallel_NPU_group: 8"),
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD" => {
            format!(
                "{word} model_parallel_NPU_group: 8 checkpoints: 2 2 11 checkpoint_initiates: 2 19 10"
            )
        }
        "HYBRID_DLRM" | "HYBRID_DLRM_ENHANCED" => format!("{word} 4"),
        _ => format!("{word} alone"),
    }
}

/// A word as it can be shown.
pub(super) fn short(word: &str) -> String {
    let shown: String = word.chars().take(40).collect();
    if shown.len() < word.len() { format!("{shown}...") } else { shown }
}
