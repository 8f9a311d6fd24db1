//! Parameters by the key that sets them in a platform file, for those who try many: `node.step[0]`,
//! in microseconds or as a part.

use super::Library;
use units::{Ratio, Span};

/// A parameter to be set.
enum Slot<'a> {
    Time(&'a mut Span),
    Part(&'a mut Ratio),
}

impl Library {
    /// Sets the parameter `key` to `value`: us, or a part of a bandwidth.
    ///
    /// # Errors
    /// `key` when the library has no such parameter.
    pub fn change<'k>(&mut self, key: &'k str, value: f64) -> Result<(), &'k str> {
        let millionths = (value.max(0.0) * 1e6).round();
        match self.slot(key).ok_or(key)? {
            Slot::Time(time) => *time = Span(millionths as u64),
            Slot::Part(part) => *part = Ratio(millionths as u64),
        }
        Ok(())
    }

    fn slot(&mut self, key: &str) -> Option<Slot<'_>> {
        use Slot::{Part, Time};
        let (path, at) = match key.strip_suffix(']').and_then(|k| k.split_once('[')) {
            Some((path, at)) => (path, at.parse::<usize>().ok()?),
            None => (key, 0),
        };
        let (outer, inner) = path.split_once('.').unwrap_or(("", path));
        match outer {
            "" => match inner {
                "start" => Some(Time(&mut self.start)),
                "send" => Some(Time(&mut self.send)),
                "gap" => Some(Time(&mut self.gap)),
                _ => None,
            },
            "node" => self.node.slot(inner, at),
            "network" => self.network.as_mut()?.slot(inner, at),
            "nvls" => {
                let nvls = self.nvls.as_mut()?;
                match inner {
                    "efficiency" => Some(Part(&mut nvls.efficiency)),
                    "latency" => Some(Time(&mut nvls.latency)),
                    "ramp" => Some(Time(&mut nvls.ramp)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl super::Inside {
    fn slot(&mut self, key: &str, at: usize) -> Option<Slot<'_>> {
        use Slot::{Part, Time};
        Some(match key {
            "efficiency" => Part(&mut self.efficiency),
            "fill" => Part(self.fill.as_mut()?),
            "step" => Time(self.step.get_mut(at)?),
            "simple_start" => Time(&mut self.simple_start),
            "share" => Part(self.share.get_mut(at)?),
            "tree" => Part(&mut self.tree),
            "pair" => Time(&mut self.pair),
            "pairs" => Part(&mut self.pairs),
            _ => return None,
        })
    }
}

impl super::Between {
    fn slot(&mut self, key: &str, at: usize) -> Option<Slot<'_>> {
        use Slot::{Part, Time};
        Some(match key {
            "efficiency" => Part(&mut self.efficiency),
            "step" => Time(self.step.get_mut(at)?),
            "level" => Time(self.level.get_mut(at)?),
            "share" => Part(self.share.get_mut(at)?),
            "tree" => Part(&mut self.tree),
            "tree_of_two" => Part(&mut self.tree_of_two),
            "pair" => Time(&mut self.pair),
            "pairs" => Part(&mut self.pairs),
            "crossing" => Part(self.crossing.as_mut()?),
            "short.pair" => Time(&mut self.short.as_mut()?.pair),
            _ => return None,
        })
    }
}
