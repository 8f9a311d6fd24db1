use super::Number;
use super::wide::wide;
use crate::Fault;

/// A feature, and how its table's rows are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Name of the feature.
    pub feature: String,
    /// Name of its table.
    pub table: String,
    /// Rows of the table.
    pub rows: u64,
    /// Where each shard ends, ascending up to `rows`; empty when the rows are not cut.
    pub ends: Vec<u64>,
}

impl Cut {
    /// Names the table and the feature.
    fn place(&self) -> String {
        format!("table {:?}: feature {:?}", self.table, self.feature)
    }

    /// First row of each shard.
    fn starts(&self) -> Vec<u64> {
        [0].iter().chain(&self.ends).copied().collect()
    }
}

/// Which shard a row is in. A table of cells of `2^shift` rows has the shard of each cell's first
/// row. The shards that begin within the cell follow it.
#[derive(Clone, Debug)]
struct Divider {
    shift: u32,
    cells: Vec<u16>,
    ends: Vec<u64>,
    /// Whether no cell has more than one border of shards.
    single: bool,
    /// Where shards end, if they are few and their rows have 31 bits; the largest number fills up.
    few: Option<[i32; Tally::WAYS]>,
}

const CELLS: u64 = 4096;

impl Divider {
    fn new(cut: &Cut) -> Self {
        let shift = (0..64).find(|&shift| (cut.rows - 1) >> shift < CELLS).unwrap_or(63);
        let within = |row: u64| cut.ends.partition_point(|&end| end <= row);
        let starts = 0..=(cut.rows - 1) >> shift;
        let cells: Vec<u16> = starts.map(|cell| within(cell << shift) as u16).collect();
        let last = cut.ends.len() as u16 - 1;
        let single = cells.iter().zip(cells[1..].iter().chain([&last])).all(|(a, b)| b - a <= 1);
        let small = cut.ends.len() <= Tally::WAYS && cut.rows <= i32::MAX as u64;
        let end = |shard: usize| cut.ends.get(shard).map_or(i32::MAX, |&end| end as i32);
        let few = small.then(|| std::array::from_fn(end));
        Self { shift, cells, ends: cut.ends.clone(), single, few }
    }

    /// The shard of a row of the table.
    #[inline(always)]
    fn shard(&self, row: u64) -> u16 {
        let mut shard = self.cells[(row >> self.shift) as usize];
        while row >= self.ends[usize::from(shard)] {
            shard += 1;
        }
        shard
    }

    /// The same where no cell has more than one border, without a branch.
    #[inline(always)]
    fn near_shard(&self, row: u64) -> u16 {
        let shard = self.cells[(row >> self.shift) as usize];
        shard + u16::from(row >= self.ends[usize::from(shard)])
    }
}

/// Where the indices of each feature go: to *segments*, blocks in the order in which they are sent.
#[derive(Clone, Debug)]
pub struct Router {
    cuts: Vec<Cut>,
    dividers: Vec<Option<Divider>>,
    /// Feature and shard of each segment.
    segments: Vec<(usize, usize)>,
    /// For each feature its segments: copies of a whole one, the shards of one that is cut.
    targets: Vec<Vec<usize>>,
}

/// A batch that was checked and counted, and what filling its segments needs.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    samples: usize,
    /// First index of each feature, and the end of the last one.
    features: Vec<usize>,
    /// First index of each segment, and the end of the last one.
    segments: Vec<usize>,
    /// The shard of each index of a feature that is cut.
    shards: Vec<u16>,
    /// Lengths of the bags of one feature, by shard.
    bags: Halves,
}

impl Routes {
    /// Samples of the batch.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Bags and indices of all segments.
    #[must_use]
    pub fn extent(&self) -> (usize, usize) {
        let segments = self.segments.len().saturating_sub(1);
        (self.samples * segments, self.segments.last().copied().unwrap_or(0))
    }

    /// Where the indices of each segment begin, and where the last ones end.
    #[must_use]
    pub fn segments(&self) -> &[usize] {
        &self.segments
    }
}

/// Data to send, segment after segment.
#[derive(Debug)]
pub struct Sent<'a, I> {
    /// Lengths of bags, `[segments, samples]`.
    pub lengths: &'a mut [i32],
    /// Rows within their shards.
    pub indices: &'a mut [I],
    /// Weights of the indices, if there are any.
    pub weights: Option<&'a mut [f32]>,
}

impl Router {
    /// Sends feature `f`'s indices in shard `s` to the segment `(f, s)`. A feature whose rows are
    /// not cut may have any number of segments `(f, 0)`: each gets a copy. A feature that is cut
    /// needs one for each shard. Fails otherwise.
    pub fn new(cuts: Vec<Cut>, segments: Vec<(usize, usize)>) -> Result<Self, Fault> {
        for cut in &cuts {
            let ascending = cut.ends.windows(2).all(|pair| pair[0] < pair[1]);
            let ends =
                cut.ends.first() != Some(&0) && cut.ends.last().unwrap_or(&cut.rows) == &cut.rows;
            if cut.rows == 0 || !ascending || !ends || cut.ends.len() > usize::from(u16::MAX) {
                return Err(Fault::new(cut.place(), format!("shards end at {:?}", cut.ends))
                    .allowed(format!("ascending ends up to {}, at most {}", cut.rows, u16::MAX)));
            }
        }
        let mut targets: Vec<Vec<usize>> =
            cuts.iter().map(|cut| vec![usize::MAX; cut.ends.len()]).collect();
        for (segment, &(feature, shard)) in segments.iter().enumerate() {
            let cut = cuts.get(feature).map_or(usize::MAX, |cut| cut.ends.len());
            match targets.get_mut(feature) {
                Some(targets) if cut == 0 && shard == 0 => targets.push(segment),
                Some(targets) if shard < cut && targets[shard] == usize::MAX => {
                    targets[shard] = segment;
                }
                _ => {
                    let said =
                        format!("shard {shard} of feature {feature} does not exist, or twice");
                    return Err(Fault::new(format!("segment {segment}"), said));
                }
            }
        }
        if let Some(feature) = targets.iter().position(|each| each.contains(&usize::MAX)) {
            return Err(Fault::new(cuts[feature].place(), "a shard without a segment"));
        }
        let divider = |cut: &Cut| (!cut.ends.is_empty()).then(|| Divider::new(cut));
        Ok(Self { dividers: cuts.iter().map(divider).collect(), cuts, segments, targets })
    }

    /// Checks a batch of `samples` samples, feature-major, and counts what each segment gets. Fails
    /// on a length below zero, lengths that don't add up, an index outside its table and a weight
    /// that is not a number.
    pub fn count<L: Number, I: Number>(
        &self,
        samples: usize,
        lengths: &[L],
        indices: &[I],
        weights: Option<&[f32]>,
        routes: &mut Routes,
    ) -> Result<(), Fault> {
        self.extents(samples, lengths, indices.len(), routes)?;
        if let Some(weights) = weights {
            self.check_weights(lengths, weights, indices.len(), routes)?;
        }
        let mut counts = vec![0; self.segments.len()];
        routes.shards.resize(indices.len(), 0);
        for (feature, (cut, divider)) in self.cuts.iter().zip(&self.dividers).enumerate() {
            let range = routes.features[feature]..routes.features[feature + 1];
            let part = &indices[range.clone()];
            if !wide(
                #[inline(always)]
                || within(part, cut.rows),
            ) {
                return Err(self.outside(feature, lengths, part, routes));
            }
            let targets = &self.targets[feature];
            if let Some(divider) = divider {
                let shards = &mut routes.shards[range];
                for (count, &target) in wide(
                    #[inline(always)]
                    || divide(divider, part, shards),
                )
                .into_iter()
                .zip(targets)
                {
                    counts[target] = count;
                }
            } else {
                targets.iter().for_each(|&target| counts[target] = part.len());
            }
        }
        routes.segments.clear();
        routes.segments.push(0);
        let mut end = 0;
        routes.segments.extend(counts.into_iter().map(|count| {
            end += count;
            end
        }));
        Ok(())
    }

    /// Fills the segments of a batch that was counted.
    ///
    /// # Panics
    /// When the batch or what is sent has other sizes than those that were counted.
    pub fn fill<L: Number, I: Number, O: Number>(
        &self,
        routes: &mut Routes,
        lengths: &[L],
        indices: &[I],
        weights: Option<&[f32]>,
        sent: &mut Sent<'_, O>,
    ) {
        let samples = routes.samples;
        for (feature, targets) in self.targets.iter().enumerate() {
            let bags = &lengths[feature * samples..][..samples];
            let range = routes.features[feature]..routes.features[feature + 1];
            let weights = weights.map(|weights| &weights[range.clone()]);
            if self.dividers[feature].is_some() {
                let shards = std::mem::take(&mut routes.shards);
                let part = Part {
                    bags,
                    indices: &indices[range.clone()],
                    weights,
                    shards: &shards[range],
                    starts: &self.cuts[feature].starts(),
                    targets,
                };
                wide(
                    #[inline(always)]
                    || part.scatter(routes, sent),
                );
                routes.shards = shards;
                continue;
            }
            for &target in targets {
                let to = routes.segments[target]..routes.segments[target + 1];
                wide(
                    #[inline(always)]
                    || {
                        convert(bags, &mut sent.lengths[target * samples..][..samples]);
                        convert(&indices[range.clone()], &mut sent.indices[to.clone()]);
                    },
                );
                if let (Some(sent), Some(weights)) = (&mut sent.weights, weights) {
                    sent[to].copy_from_slice(weights);
                }
            }
        }
    }

    /// First index of each feature.
    fn extents<L: Number>(
        &self,
        samples: usize,
        lengths: &[L],
        count: usize,
        routes: &mut Routes,
    ) -> Result<(), Fault> {
        let bags = self.cuts.len() * samples;
        if lengths.len() != bags {
            let said = format!("{} lengths of {samples} samples", lengths.len());
            return Err(Fault::new("lengths", said).allowed(format!("{bags}")));
        }
        routes.samples = samples;
        routes.features.clear();
        routes.features.push(0);
        let (mut every, mut end) = (0, 0_u64);
        for feature in 0..self.cuts.len() {
            for length in &lengths[feature * samples..][..samples] {
                every |= length.wide();
                end = end.wrapping_add(length.wide());
            }
            routes.features.push(end as usize);
        }
        // Negative lengths, and those that are sent in more than 32 bits.
        if every >> 31 != 0 {
            let at = lengths.iter().position(|length| length.wide() >> 31 != 0).unwrap_or(0);
            let place = format!("{}: sample {}", self.cuts[at / samples].place(), at % samples);
            let said = format!("length {}", lengths[at].signed());
            return Err(Fault::new(place, said).allowed(format!("0 to {count}")));
        }
        if end == count as u64 {
            return Ok(());
        }
        Err(Fault::new("batch", format!("lengths add up to {end}, but there are {count} indices")))
    }

    fn check_weights<L: Number>(
        &self,
        lengths: &[L],
        weights: &[f32],
        count: usize,
        routes: &Routes,
    ) -> Result<(), Fault> {
        if weights.len() != count {
            return Err(Fault::new("weights", format!("{} weights", weights.len()))
                .allowed(format!("{count}, one for each index")));
        }
        let bits = weights.iter().map(|weight| weight.to_bits() & i32::MAX as u32);
        if bits.fold(0, u32::max) < f32::INFINITY.to_bits() {
            return Ok(());
        }
        let at = weights.iter().position(|weight| !weight.is_finite()).unwrap_or(0);
        let feature = routes.features.partition_point(|&start| start <= at) - 1;
        let place = self.place(feature, lengths, at - routes.features[feature], routes);
        Err(Fault::new(place, format!("weight {}", weights[at])).allowed("finite weights"))
    }

    fn outside<L: Number, I: Number>(
        &self,
        feature: usize,
        lengths: &[L],
        indices: &[I],
        routes: &Routes,
    ) -> Fault {
        let rows = self.cuts[feature].rows;
        let at = indices.iter().position(|index| index.wide() >= rows).unwrap_or(0);
        let place = self.place(feature, lengths, at, routes);
        Fault::new(place, format!("index {}", indices[at].signed()))
            .allowed(format!("0 to {}", rows - 1))
    }

    /// Feature and sample of an index, counted from the feature's first one.
    fn place<L: Number>(
        &self,
        feature: usize,
        lengths: &[L],
        at: usize,
        routes: &Routes,
    ) -> String {
        let bags = &lengths[feature * routes.samples..][..routes.samples];
        let mut end = 0;
        let holds = |length: &L| {
            end += length.wide() as usize;
            end > at
        };
        let sample = bags.iter().position(holds).unwrap_or(0);
        format!("{}: sample {sample}", self.cuts[feature].place())
    }
}

/// Whether every index is below `rows`: no difference to the last row, and no index, has its
/// highest bit set.
#[inline(always)]
fn within<I: Number>(indices: &[I], rows: u64) -> bool {
    let bits = indices
        .iter()
        .fold(0, |bits, index| bits | index.wide() | (rows - 1).wrapping_sub(index.wide()));
    bits >> 63 == 0
}

#[inline(always)]
fn convert<I: Number, O: Number>(from: &[I], to: &mut [O]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = O::narrow(from.wide()));
}

/// Writes the shard of each index, and returns how often each shard occurs.
#[inline(always)]
fn divide<I: Number>(divider: &Divider, indices: &[I], shards: &mut [u16]) -> Vec<usize> {
    let mut counts = vec![0; divider.ends.len()];
    let blocks = shards.chunks_mut(Tally::MOST).zip(indices.chunks(Tally::MOST));
    for (shards, indices) in blocks {
        let pairs = shards.iter_mut().zip(indices);
        if let Some(ends) = &divider.few {
            // Compared with each end, which the compiler does for many indices at a time.
            pairs.for_each(|(shard, index)| {
                let row = index.wide() as i32;
                *shard = ends.iter().map(|&end| i32::from(row >= end)).sum::<i32>() as u16;
            });
        } else if divider.single {
            pairs.for_each(|(shard, index)| *shard = divider.near_shard(index.wide()));
        } else {
            pairs.for_each(|(shard, index)| *shard = divider.shard(index.wide()));
        }
        if counts.len() <= Tally::WAYS {
            for (shard, count) in counts.iter_mut().enumerate() {
                let found = shards.iter().map(|&each| u16::from(each == shard as u16));
                *count += usize::from(found.sum::<u16>());
            }
        } else {
            shards.iter().for_each(|&shard| counts[usize::from(shard)] += 1);
        }
    }
    counts
}

/// Counts of up to eight shards in one register, where equal neighbours don't wait for each other.
#[derive(Clone, Copy, Debug, Default)]
struct Tally(u64);

impl Tally {
    const WAYS: usize = 8;
    /// Indices that can be counted.
    const MOST: usize = 255;

    #[inline(always)]
    fn add(&mut self, shard: u16) {
        self.0 += 1 << (8 * shard);
    }

    #[inline(always)]
    fn of(self, shard: u16) -> usize {
        (self.0 >> (8 * shard)) as usize & 255
    }

    #[inline(always)]
    fn added_to(self, counts: [usize; Self::WAYS]) -> [usize; Self::WAYS] {
        std::array::from_fn(|shard| counts[shard] + self.of(shard as u16))
    }

    #[inline(always)]
    fn counts(self) -> impl Iterator<Item = usize> {
        (0..Self::WAYS as u16).map(move |shard| self.of(shard))
    }
}

/// The tallies of the first indices of a block: of none of them, of one, and so on.
type Tallies = [Tally; Tally::MOST + 1];

/// Tallies of bags in halves, so that lengths of one shard take few instructions.
#[derive(Clone, Debug, Default)]
struct Halves {
    low: Vec<u32>,
    high: Vec<u32>,
}

impl Halves {
    fn resize(&mut self, bags: usize) {
        self.low.resize(bags, 0);
        self.high.resize(bags, 0);
    }

    fn tally(&self, bag: usize) -> Tally {
        Tally(u64::from(self.high[bag]) << 32 | u64::from(self.low[bag]))
    }

    /// Writes the length that each bag has in a shard.
    #[inline(always)]
    fn lengths(&self, shard: usize, to: &mut [i32]) {
        let (half, place) = if shard < 4 { (&self.low, shard) } else { (&self.high, shard - 4) };
        to.iter_mut().zip(half).for_each(|(to, half)| *to = (half >> (8 * place) & 255) as i32);
    }
}

/// Bags of a feature whose indices are counted in blocks.
struct Bags<'a, L> {
    lengths: &'a [L],
    /// Bags that are counted.
    done: usize,
    /// First index of the next bag.
    begin: usize,
    /// Counts of the next bag's indices in earlier blocks.
    open: Option<[usize; Tally::WAYS]>,
    /// Bags that are in several blocks, with their counts.
    long: Vec<(usize, [usize; Tally::WAYS])>,
}

impl<L: Number> Bags<'_, L> {
    /// Counts the bags that end in the block `start..stop`. `tallies[i]` is the tally of its first
    /// `i` indices.
    #[inline(always)]
    fn close(&mut self, start: usize, stop: usize, tallies: &Tallies, closed: &mut Halves) {
        // Not in `self`, so that the compiler keeps them in registers.
        let (first, mut done, mut begin) = (self.done, self.done, self.begin);
        let mut before = tallies[begin.max(start) - start];
        let halves = closed.low[first..].iter_mut().zip(&mut closed.high[first..]);
        for (bag, (low, high)) in self.lengths[first..].iter().zip(halves) {
            let end = begin + bag.wide() as usize;
            if end > stop {
                break;
            }
            let after = tallies[(end - start) % tallies.len()];
            let tally = after.0.wrapping_sub(before.0);
            (*low, *high) = (tally as u32, (tally >> 32) as u32);
            (done, begin, before) = (done + 1, end, after);
        }
        (self.done, self.begin) = (done, begin);
        if done > first
            && let Some(open) = self.open.take()
        {
            self.long.push((first, closed.tally(first).added_to(open)));
        }
        if self.begin < stop {
            let tally = Tally(tallies[stop - start].0 - before.0);
            self.open = Some(tally.added_to(self.open.unwrap_or_default()));
        }
    }
}

/// A feature that is cut, and where its indices go.
struct Part<'a, L, I> {
    bags: &'a [L],
    indices: &'a [I],
    weights: Option<&'a [f32]>,
    shards: &'a [u16],
    /// First row of each shard.
    starts: &'a [u64],
    /// Segment of each shard.
    targets: &'a [usize],
}

impl<L: Number, I: Number> Part<'_, L, I> {
    /// Each index to its shard's segment.
    #[inline(always)]
    fn scatter<O: Number>(&self, routes: &mut Routes, sent: &mut Sent<'_, O>) {
        let next = |shard: usize| self.targets.get(shard).map_or(0, |&each| routes.segments[each]);
        if self.targets.len() > Tally::WAYS {
            return self.scatter_to_many((0..self.targets.len()).map(next).collect(), sent);
        }
        let mut next: [usize; Tally::WAYS] = std::array::from_fn(next);
        let starts: [u64; Tally::WAYS] =
            std::array::from_fn(|shard| self.starts.get(shard).copied().unwrap_or(0));
        let mut bags = Bags { lengths: self.bags, done: 0, begin: 0, open: None, long: Vec::new() };
        let mut tallies = [Tally::default(); Tally::MOST + 1];
        routes.bags.resize(self.bags.len());
        for start in (0..self.indices.len().max(1)).step_by(Tally::MOST) {
            let stop = self.indices.len().min(start + Tally::MOST);
            let mut tally = Tally::default();
            let pairs = self.shards[start..stop].iter().zip(&self.indices[start..stop]);
            let out = &mut *sent.indices;
            for ((&shard, &index), after) in pairs.zip(&mut tallies[1..]) {
                let place = usize::from(shard) % Tally::WAYS;
                let to = next[place] + tally.of(shard);
                tally.add(shard);
                *after = tally;
                out[to] = O::narrow(index.wide() - starts[place]);
            }
            if let (Some(sent), Some(weights)) = (&mut sent.weights, self.weights) {
                let shards = self.shards[start..stop].iter().zip(&weights[start..stop]);
                for ((&shard, &weight), before) in shards.zip(&tallies) {
                    sent[next[usize::from(shard)] + before.of(shard)] = weight;
                }
            }
            next.iter_mut().zip(tally.counts()).for_each(|(next, count)| *next += count);
            bags.close(start, stop, &tallies, &mut routes.bags);
        }
        for (shard, &target) in self.targets.iter().enumerate() {
            let lengths = &mut sent.lengths[target * self.bags.len()..][..self.bags.len()];
            routes.bags.lengths(shard, lengths);
            for (bag, counts) in &bags.long {
                lengths[*bag] = counts[shard] as i32;
            }
        }
    }

    /// The same for any number of shards.
    fn scatter_to_many<O: Number>(&self, mut next: Vec<usize>, sent: &mut Sent<'_, O>) {
        let samples = self.bags.len();
        let mut before = next.clone();
        let mut done = 0;
        for (sample, bag) in self.bags.iter().enumerate() {
            let range = done..done + bag.wide() as usize;
            done = range.end;
            let pairs = self.shards[range.clone()].iter().zip(&self.indices[range.clone()]);
            for ((&shard, &index), at) in pairs.zip(range) {
                let to = next[usize::from(shard)];
                next[usize::from(shard)] = to + 1;
                self.put(at, to, shard, index, sent);
            }
            for ((before, &next), &target) in before.iter_mut().zip(&next).zip(self.targets) {
                sent.lengths[target * samples + sample] = (next - *before) as i32;
                *before = next;
            }
        }
    }

    #[inline(always)]
    fn put<O: Number>(&self, at: usize, to: usize, shard: u16, index: I, sent: &mut Sent<'_, O>) {
        sent.indices[to] = O::narrow(index.wide() - self.starts[usize::from(shard)]);
        if let (Some(sent), Some(weights)) = (&mut sent.weights, self.weights) {
            sent[to] = weights[at];
        }
    }
}
