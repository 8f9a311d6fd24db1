//! From the keys of a platform file to the platform.

use super::fabric;
use super::network::{self, Network};
use super::shape::Shape;
use super::top_level_keys::Root;
use super::{cards, collectives, explicit, failed, generated, library, nics, npu, sized};
use crate::library::Library;
use crate::platform::{
    Collectives, DimensionOrder, Hierarchy, Like, Measured, Platform, Scheduler,
};
use crate::profile::Profile;
use declared::findings::{At, Findings};
use declared::tree::Tree;
use declared::{Setting, Tried, Words, absent};
use device::memory::keys as memory;
use topology::Fabric;

/// The platform, or nothing and at least one problem.
pub(super) fn platform(tree: &Tree, name: &str, findings: &mut Findings) -> Option<Platform> {
    let root = At::root(tree);
    let file = Root::read(&root, findings)?;
    let fabric = fabric::resolve(&root, &file, findings)
        .and_then(|fabric| without_failed(fabric, &file, &root, findings));
    let npu = npu::resolve(file.npu.clone(), root.get(Root::npu).as_ref(), findings);
    let fabric = fabric?;
    let remote_memory = match (file.remote_memory.clone().value(), root.get(Root::remote_memory)) {
        (Some(keys), Some(at)) => memory::resolve(keys, &at, fabric.npus(), findings),
        _ => None,
    };
    let logical = logical(&file, &root, fabric.npus(), findings);
    let sizes = logical.clone().unwrap_or_else(|| fabric.sizes());
    let blocks = match &fabric {
        Fabric::Stacked(dims) if !file.logical.is_given() => {
            dims.iter().map(|dim| dim.block).collect()
        }
        _ => Vec::new(),
    };
    let given = file.collectives.clone().or(Default::default)?;
    let (collectives, custom_paths) = collectives::resolve(
        &given,
        root.get(Root::collectives).as_ref(),
        &sizes,
        &blocks,
        findings,
    );
    let scheduler = scheduler(&file, &root, sizes.len())?;
    queued(&scheduler, &root, sizes.len(), findings);
    if scheduler.dispatch_below == 0 && scheduler.dispatch_chunks != 1 {
        let key = |field: &str| path(Root::scheduler, field);
        let (given, needed) = (key(Scheduler::dispatch_chunks), key(Scheduler::dispatch_below));
        findings.warnings.push(format!("{given} has no effect without {needed}"));
    }
    let library = library(&file, &root, &fabric, logical.is_some(), findings);
    if library.is_some() {
        unused(&collectives, &scheduler, sizes.len(), findings);
        findings.warnings.extend(sized::larger_node(&file.topology, &fabric));
    }
    if let (Tried::Read(network), Some(at)) = (&file.network, root.get(Root::network)) {
        network::check(network, &fabric, &at, findings);
    }
    findings.warnings.extend(cards::note(&fabric, &file.network));
    if let Some(why) = keeps_order(&scheduler, &collectives, &fabric, logical.is_some()) {
        let key = path(Root::scheduler, Scheduler::dimension_order);
        let word = scheduler.dimension_order.word();
        findings.warnings.push(format!("{key}: {word} has no effect {why}"));
    }
    Some(Platform {
        name: file.name.or(|| name.to_string())?,
        source: file.source.or(String::new)?,
        measured: Measured::of(file.measured.value()),
        fabric,
        network: file.network.or(Network::default)?.resolved(),
        logical,
        npu: npu?,
        remote_memory,
        collectives,
        library,
        scheduler,
        custom_paths,
        profile: Profile::Native,
        warnings: std::mem::take(&mut findings.warnings),
        like: Like::default(),
    })
}

/// The fabric without what has failed.
fn without_failed(
    fabric: Fabric,
    file: &Root,
    root: &At<'_>,
    findings: &mut Findings,
) -> Option<Fabric> {
    match (file.failed.clone(), root.get(Root::failed)) {
        (Tried::Absent, _) | (_, None) => Some(fabric),
        (keys, Some(at)) => failed::resolve(fabric, keys.value()?, &at, findings),
    }
}

/// `scheduler.chunks`.
fn path(section: &str, key: &str) -> String {
    format!("{section}.{key}")
}

/// The library, checked on the fabric.
fn library(
    file: &Root,
    root: &At<'_>,
    fabric: &Fabric,
    logical: bool,
    findings: &mut Findings,
) -> Option<Library> {
    let at = root.get(Root::library)?;
    let Tried::Read(library) = &file.library else { return None };
    library::check(library, &at, fabric, logical, findings);
    Some(library.clone())
}

/// Warns of settings that a library leaves without effect when it runs every collective.
fn unused(collectives: &Collectives, scheduler: &Scheduler, dims: usize, findings: &mut Findings) {
    if collectives.choices.iter().any(Option::is_some) {
        return;
    }
    let usual = with_dims(absent(), dims);
    let settings = [
        (
            path(Root::collectives, collectives::HIERARCHY.name),
            collectives.hierarchy != Hierarchy::Enhanced,
        ),
        (path(Root::scheduler, Scheduler::chunks), scheduler.chunks != usual.chunks),
        (
            path(Root::scheduler, Scheduler::dimension_order),
            scheduler.dimension_order != usual.dimension_order,
        ),
    ];
    let keys: Vec<String> = settings.into_iter().filter(|s| s.1).map(|s| s.0).collect();
    if !keys.is_empty() {
        findings.warnings.push(format!("no effect with \"library\": {}", keys.join(", ")));
    }
}

fn logical(file: &Root, root: &At<'_>, npus: u32, findings: &mut Findings) -> Option<Vec<u32>> {
    let sizes = file.logical.clone().value()?;
    let product = sizes.iter().try_fold(1u32, |a, &b| a.checked_mul(b));
    if product != Some(npus) {
        let shown = product.map_or("more than 4,294,967,295".to_string(), |p| p.to_string());
        let message = format!("the logical dimensions hold {shown} NPUs, the network {npus}");
        let allowed = "sizes whose product is the number of NPUs";
        findings.refuse(&root.get(Root::logical)?, message, allowed);
        return None;
    }
    Some(sizes)
}

/// The settings. On a single dimension a collective is one chunk unless the file says otherwise.
fn scheduler(file: &Root, root: &At<'_>, dims: usize) -> Option<Scheduler> {
    let scheduler = file.scheduler.clone().or(absent)?;
    let given = root.get(Root::scheduler).and_then(|at| at.get(Scheduler::chunks));
    Some(if given.is_some() { scheduler } else { with_dims(scheduler, dims) })
}

/// Refuses lists of the scheduler that have not one number for each dimension.
fn queued(scheduler: &Scheduler, root: &At<'_>, dims: usize, findings: &mut Findings) {
    for (key, entries) in scheduler.lists() {
        let at = root.get(Root::scheduler).and_then(|at| at.get(key));
        if let (Some(entries), Some(at)) = (entries.filter(|&entries| entries != dims), at) {
            let message = format!("{entries} numbers for {dims} dimensions");
            findings.refuse(&at, message, format!("one number for all, or a list of {dims}"));
        }
    }
}

fn with_dims(scheduler: Scheduler, dims: usize) -> Scheduler {
    if dims == 1 { Scheduler { chunks: 1, ..scheduler } } else { scheduler }
}

/// Setting that keeps a scheduler from choosing another order than the baseline's, wherever it
/// could.
fn keeps_order(
    scheduler: &Scheduler,
    collectives: &Collectives,
    fabric: &Fabric,
    logical: bool,
) -> Option<&'static str> {
    if scheduler.dimension_order == DimensionOrder::AllAtOnce {
        return None;
    }
    let reasons = [
        (scheduler.chunks == 1, "on a single chunk: set scheduler.chunks"),
        (
            collectives.hierarchy != Hierarchy::Enhanced,
            "on all_reduce: it needs collectives.hierarchy: enhanced",
        ),
        (matches!(fabric, Fabric::Graph(_)), "on a graph: it needs dimensions"),
        (logical, "where a logical dimension crosses physical ones"),
    ];
    let chosen = scheduler.dimension_order != DimensionOrder::Baseline;
    reasons.into_iter().find(|(keeps, _)| chosen && *keeps).map(|(_, why)| why)
}

/// The keys that read back to a platform.
pub(super) fn keys(platform: &Platform) -> Root {
    let (mut topology, mut links, mut graph, mut lost) = (None, None, None, None);
    let mut cards = None;
    match &platform.fabric {
        Fabric::Stacked(dims) => {
            if let Some(shape) = platform.fabric.topology() {
                let keys = fabric::stack_keys(shape, dims);
                (topology, links) = (Some(keys.0), Some(keys.1));
            }
        }
        Fabric::Graph(found) => {
            lost = failed::keys(found);
            if let Some(stack) = &found.stack {
                let keys = fabric::shared_keys(stack);
                (topology, links) = (Some(keys.0), Some(keys.1));
                cards = Some(nics::keys(stack));
            }
            match found.recipe.as_ref().and_then(|recipe| generated::keys(recipe)) {
                Some(keys) => {
                    (topology, links) = (Some(Shape::Generated(keys.0)), Some(keys.1));
                }
                None if found.stack.is_some() => {}
                None => graph = Some(explicit::keys(found)),
            }
        }
    }
    let source = Some(platform.source.clone()).filter(|source| !source.is_empty());
    Root {
        name: Tried::Read(platform.name.clone()),
        source: source.into(),
        measured: platform.measured.said().map(str::to_string).into(),
        extends: Tried::Absent,
        topology: topology.into(),
        npus: Tried::Absent,
        graph: graph.into(),
        links: links.into(),
        nics: cards.into(),
        failed: lost.into(),
        network: Tried::Read(platform.network.clone()),
        npu: Tried::Read(npu::keys(&platform.npu)),
        remote_memory: platform.remote_memory.as_ref().map(memory::keys).into(),
        collectives: Tried::Read(collectives::keys(&platform.collectives, &platform.custom_paths)),
        library: platform.library.clone().into(),
        scheduler: Tried::Read(platform.scheduler.clone()),
        logical: platform.logical.clone().into(),
    }
}
