//! `topology: {generator: fat_tree, ...}` with `links` by kind: a fabric drawn from a few numbers.
//!
//! The table of `topology::generate` declares the generators and their parameters. The keys of a
//! platform file follow from it.

use super::links::{Link, Links, Per};
use declared::findings::{At, Findings};
use declared::{Absent, Key, Setting, Shown};
use std::borrow::Cow;
use std::sync::LazyLock;
use topology::GraphFabric;
use topology::generate::{self, GENERATORS, Generator, Part, Recipe, Values, Wire};

/// The key that names the generator.
const GENERATOR: Key =
    Key::plain("generator", words, Absent::Required, "Generator that draws the network.");

/// `generator` and the parameters of all generators.
static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut keys = vec![GENERATOR];
    for parameter in GENERATORS.iter().flat_map(|generator| generator.keys()) {
        if keys.iter().all(|key| key.name != parameter.name) {
            keys.push(merged(parameter.name));
        }
    }
    keys
});

/// The parameter of this name of every generator that has it.
fn merged(name: &'static str) -> Key {
    let found = || {
        let having = |generator: &&'static dyn Generator| {
            let key = generator.keys().iter().find(|key| key.name == name)?;
            Some((generator.name(), key))
        };
        GENERATORS.iter().filter_map(having)
    };
    let mut meanings: Vec<(&str, Vec<&str>)> = Vec::new();
    for (generator, key) in found() {
        match meanings.iter_mut().find(|(about, _)| *about == key.about) {
            Some((_, generators)) => generators.push(generator),
            None => meanings.push((key.about, vec![generator])),
        }
    }
    let meaning = |(about, generators): &(&str, Vec<&str>)| {
        let generators: Vec<String> = generators.iter().map(|each| format!("`{each}`")).collect();
        format!("With {}: {about}.", generators.join(", "))
    };
    let doc = meanings.iter().map(meaning).collect::<Vec<_>>().join(" ");
    let default = found().next().and_then(|(_, key)| key.default);
    let kind: fn() -> String = match found().next() {
        Some((_, key)) if key.fabric => || "mapping".to_string(),
        Some((_, key)) if key.list => || "list of counts".to_string(),
        _ => || "count".to_string(),
    };
    Key::plain(
        name,
        kind,
        match default {
            None => Absent::Required,
            Some("") => Absent::Text("none"),
            Some(default) => Absent::Text(default),
        },
        doc.leak(),
    )
}

fn words() -> String {
    let names: Vec<String> = GENERATORS.iter().map(|g| format!("`{}`", g.name())).collect();
    names.join(", ")
}

/// A generator and the parameters that were given.
#[derive(Clone)]
pub(super) struct Generated {
    generator: &'static dyn Generator,
    values: Values,
}

impl Setting for Generated {
    fn keys() -> &'static [Key] {
        &KEYS
    }

    fn kind() -> String {
        "mapping".into()
    }

    fn example() -> String {
        GENERATORS.map(|generator| generator.name()).join(", ")
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Generated> {
        let names: Vec<(&str, &'static dyn Generator)> =
            GENERATORS.into_iter().map(|g| (g.name(), g)).collect();
        let name = findings.need(at, GENERATOR.name, &Self::example())?;
        let generator = findings.one_of(&name, &names)?;
        let keys = generator.keys();
        let known: Vec<&str> =
            std::iter::once(GENERATOR.name).chain(keys.iter().map(|key| key.name)).collect();
        findings.mapping(at, &known)?;
        let before = findings.problems.len();
        let mut values = Values::default();
        for key in keys {
            let Some(given) = at.get(key.name) else { continue };
            if key.fabric {
                if let Some(Generated { generator, values: of_part }) = Self::read(&given, findings)
                {
                    let part = Part { generator: generator.name(), values: of_part };
                    values.set_part(key.name, part);
                }
                continue;
            }
            let mut whole = |at: &At<'_>| findings.whole(at, key.least, key.most());
            let read: Option<Vec<u32>> = match key.list {
                true => given.items().iter().map(whole).collect(),
                false => whole(&given).map(|one| vec![one]),
            };
            if let Some(read) = read {
                values.set(key.name, read);
            }
        }
        (findings.problems.len() == before).then_some(Generated { generator, values })
    }

    fn show(&self) -> Option<Shown> {
        let mut entries = vec![(GENERATOR.name, Shown::of(self.generator.name()))];
        entries.extend(parameters(self.generator, &self.values).filter_map(|(key, given)| {
            let shown = match given {
                Given::List(values) => Shown::List(values.iter().map(Shown::of).collect()),
                Given::One(value) => Shown::of(value),
                Given::Part(part) => part.show()?,
            };
            Some((key, shown))
        }));
        Some(Shown::Map(entries))
    }

    fn json(&self) -> serde_json::Value {
        let value = |(key, given): (&str, Given<'_>)| {
            let value = match given {
                Given::List(values) => values.into(),
                Given::One(value) => value.into(),
                Given::Part(part) => {
                    let mut shown = part.json();
                    shown[GENERATOR.name] = part.generator.name().into();
                    shown
                }
            };
            (key.to_string(), value)
        };
        serde_json::Value::Object(parameters(self.generator, &self.values).map(value).collect())
    }
}

/// A parameter that was given or has a default.
enum Given<'a> {
    List(&'a [u32]),
    One(u32),
    Part(Generated),
}

/// The parameters that were given or have a default, with their names.
fn parameters<'a>(
    generator: &'static dyn Generator,
    values: &'a Values,
) -> impl Iterator<Item = (&'static str, Given<'a>)> {
    generator.keys().iter().filter_map(|key| {
        let given = match values.list(key.name) {
            _ if key.fabric => Given::Part(Generated::of(values.part(key.name)?)?),
            [] => return None,
            list if key.list => Given::List(list),
            list => Given::One(list[0]),
        };
        Some((key.name, given))
    })
}

impl Generated {
    fn of(part: &Part) -> Option<Generated> {
        let generator = generate::generator(part.generator)?;
        Some(Generated { generator, values: part.values.clone() })
    }

    /// The fabric of the parameters at `at`, or nothing and at least one problem. `npus` is the
    /// wanted number of NPUs (nothing if it is wrong), and its place.
    pub(super) fn draw<'a>(
        mut self,
        at: &At<'a>,
        (links, links_at): (&Links, &At<'_>),
        npus: Option<(Option<u32>, At<'_>)>,
        findings: &mut Findings,
    ) -> Option<GraphFabric> {
        let before = findings.problems.len();
        self.complete(npus.is_some(), at, findings);
        if let Some((npus, place)) = npus {
            self.resized(npus?, &place, findings);
        }
        let faults = self.generator.faults(&self.values);
        if findings.problems.len() == before && !faults.is_empty() {
            refuse(faults, at, findings);
        }
        if findings.problems.len() > before {
            return None;
        }
        let wires = wires(links, links_at, &self.generator.kinds(&self.values), findings);
        match generate::generate(self.generator, self.values, wires?) {
            Ok(fabric) => Some(fabric),
            Err(faults) => {
                refuse(faults, at, findings);
                None
            }
        }
    }

    /// Fills in defaults. The outermost parameter may be left to `npus`.
    fn complete(&mut self, sized: bool, at: &At<'_>, findings: &mut Findings) {
        for key in self.generator.keys() {
            if key.fabric {
                let outer = self.generator.outer() == key.name;
                self.complete_part(key, sized && outer, at, findings);
                continue;
            }
            if !self.values.list(key.name).is_empty() || at.get(key.name).is_some() {
                continue;
            }
            match key.default {
                Some("") => {}
                Some(default) => self.values.set(key.name, default.parse().into_iter().collect()),
                None if sized && !key.list && self.generator.outer() == key.name => {
                    self.values.set(key.name, vec![1]);
                }
                None => findings.missing(at, key.name, key.about),
            }
        }
    }

    fn complete_part(
        &mut self,
        key: &'static generate::Key,
        sized: bool,
        at: &At<'_>,
        findings: &mut Findings,
    ) {
        let Some(place) = at.get(key.name) else {
            return findings.missing(at, key.name, key.about);
        };
        if let Some(mut part) = self.values.part(key.name).and_then(Generated::of) {
            part.complete(sized, &place, findings);
            let part = Part { generator: part.generator.name(), values: part.values };
            self.values.set_part(key.name, part);
        }
    }

    /// The outermost dimension takes what is left of `npus`.
    fn resized(&mut self, npus: u32, at: &At<'_>, findings: &mut Findings) {
        let node = |of: &Self| of.generator.dims(&of.values).first().map_or(0, |dim| dim.size);
        let whole = node(self);
        let resized = self.generator.resize(&mut self.values, npus);
        let part = node(self);
        if resized.is_ok() && self.generator.name() == "nested" && part < whole {
            findings.warnings.push(format!(
                "npus: {npus} leaves nodes partly empty: {part} of the {whole} NPUs of each node \
                 are used"
            ));
        }
        if let Err(unit) = resized {
            let (name, outer) = (self.generator.name(), self.generator.outer());
            if outer.is_empty() {
                let message = format!("the generator {name} cannot give {npus} NPUs");
                return findings.refuse(at, message, unit.to_string());
            }
            let message =
                format!("changing {outer} of the generator {name} cannot give {npus} NPUs");
            findings.refuse(at, message, format!("a multiple of {unit}"));
        }
    }
}

/// Refuses each parameter that has a fault.
fn refuse<'a>(faults: Vec<generate::Fault>, at: &At<'a>, findings: &mut Findings) {
    for fault in faults {
        let below = |at: At<'a>, key: &&str| at.get(key).unwrap_or(at);
        let place = fault.path.iter().fold(at.clone(), below);
        findings.refuse(&place, fault.message, fault.allowed);
    }
}

/// Bandwidth and latency of each kind of links.
fn wires(
    links: &Links,
    at: &At<'_>,
    kinds: &[Cow<'static, str>],
    findings: &mut Findings,
) -> Option<Vec<Wire>> {
    let Some(entries) = links.entries(at, kinds.len()) else {
        let message = format!("{} entries for {} kinds of links", links.len(), kinds.len());
        let allowed = format!("one mapping for each of {}, or one for all", kinds.join(", "));
        findings.refuse(at, message, allowed);
        return None;
    };
    let mut wires = Vec::new();
    for (link, at) in entries {
        if link.per == Some(Per::Npu) {
            let place = at.get(Link::per).unwrap_or(at);
            let message = "in a generated fabric a bandwidth is that of one link";
            findings.refuse(&place, message, "per: link, or no per");
            return None;
        }
        wires.push(Wire { bandwidth: link.together(&at, findings)?, latency: link.latency });
    }
    Some(wires)
}

/// The keys that read back to a fabric.
pub(super) fn keys(recipe: &Recipe) -> Option<(Generated, Links)> {
    let generator = generate::generator(recipe.generator)?;
    let link = |wire: &Wire| Link::one(wire.bandwidth, wire.latency, None);
    let links = Links::Each(recipe.wires.iter().map(link).collect());
    Some((Generated { generator, values: recipe.values.clone() }, links))
}

/// The fabric as JSON: parameters, coordinates, kinds of links, and how much hardware it is.
pub(super) fn json(graph: &GraphFabric, recipe: &Recipe) -> serde_json::Value {
    use serde_json::{Value, json};
    let parameters = keys(recipe).map(|(generated, _)| generated.json());
    let mut count = vec![0u64; graph.kinds.len()];
    graph.links.iter().for_each(|link| count[link.kind as usize] += 1);
    let wires = graph.kinds.iter().zip(&recipe.wires).zip(&count);
    let link = |((kind, wire), links): ((&String, &Wire), &u64)| {
        json!({
            "kind": kind,
            "cables": links / 2,
            "bandwidth": wire.bandwidth.0,
            "latency_ps": wire.latency.0,
        })
    };
    let links: Vec<Value> = wires.map(link).collect();
    let dims = graph.dims.iter().map(|d| json!({"name": d.name, "size": d.size}));
    json!({
        "generator": recipe.generator,
        "parameters": parameters,
        "coordinates": dims.collect::<Vec<_>>(),
        "switches": graph.nodes.len() - graph.npus as usize,
        "cables": links,
    })
}
