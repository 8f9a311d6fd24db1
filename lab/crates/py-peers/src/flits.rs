//! Reference runs of Garnet and BookSim2, straight on the routers.

use net_flit::garnet::{Arrival, Settings};
use net_flit::{Grid, Refused, input_queued};
use peers::flits::booksim::{Load, Setup};
use peers::flits::{Hierarchy, Pattern, RingOfAll, Rings, Synthetic, all_to_all_on_a_ring};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;

/// Most nodes of a run.
const NODES: u64 = 1 << 20;

fn bad(text: String) -> PyErr {
    PyValueError::new_err(text)
}

fn refused(error: Refused) -> PyErr {
    bad(error.to_string())
}

fn get<'py, T: for<'a> FromPyObject<'a, 'py>>(
    case: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<T> {
    let value = case.get_item(name)?.ok_or_else(|| bad(format!("no {name}")))?;
    value.extract().map_err(|_| bad(format!("invalid {name}: {value}")))
}

/// A number of `case` above 0.
fn count(case: &Bound<'_, PyDict>, name: &str) -> PyResult<u32> {
    let number: u32 = get(case, name)?;
    if number == 0 { Err(bad(format!("{name} is 0"))) } else { Ok(number) }
}

/// Whether a number of `case` is not 0; no if there is none.
fn flag(case: &Bound<'_, PyDict>, name: &str) -> PyResult<bool> {
    case.get_item(name)?.map_or(Ok(false), |value| value.is_truthy())
}

fn settings(case: &Bound<'_, PyDict>) -> PyResult<Settings> {
    Ok(Settings {
        vcs_per_vnet: count(case, "channels")?,
        buffers_per_vc: count(case, "buffer")?,
        router_latency: count(case, "router_latency")?,
        ..Settings::default()
    })
}

/// Nodes that are not too many.
fn nodes(sizes: impl IntoIterator<Item = u32>) -> PyResult<()> {
    let all = sizes.into_iter().try_fold(1u64, |all, size| all.checked_mul(size.into()));
    match all.filter(|&all| all <= NODES) {
        Some(_) => Ok(()),
        None => Err(bad(format!("more than {NODES} nodes"))),
    }
}

/// Results of a run of Garnet. No cycles mean that the network locked up.
pub struct Found {
    cycles: Option<u64>,
    traversals: u64,
    arrived: Vec<Arrival>,
}

impl<'py> IntoPyObject<'py> for Found {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mean = |of: fn(&Arrival) -> u64| {
            let all = self.arrived.iter().map(|arrival| of(arrival) as f64);
            all.sum::<f64>() / self.arrived.len().max(1) as f64
        };
        let found = PyDict::new(py);
        found.set_item("cycles", self.cycles)?;
        found.set_item("traversals", self.traversals)?;
        found.set_item("packets", self.arrived.len())?;
        found.set_item("network_latency", mean(|arrival| arrival.network))?;
        found.set_item("queue_latency", mean(|arrival| arrival.queued))?;
        Ok(found)
    }
}

/// Garnet's all-reduce on rings in three dimensions.
#[pyfunction]
pub fn garnet_all_reduce(py: Python<'_>, case: &Bound<'_, PyDict>) -> PyResult<Found> {
    let get = |name: &str| count(case, name);
    let sizes = [get("local")?, get("vertical")?, get("horizontal")?];
    nodes(sizes)?;
    let ring = |name: &str| -> PyResult<u16> {
        let value: Option<u16> = case.get_item(name)?.and_then(|value| value.extract().ok());
        value.ok_or_else(|| bad(format!("no {name}")))
    };
    let hierarchy = Hierarchy {
        sizes,
        rings: [ring("local_rings")?, ring("vertical_rings")?, ring("horizontal_rings")?],
        flit: get("flit")?,
        widths: [get("local_width")?, get("package_width")?],
        latencies: [get("local_latency")?, get("package_latency")?],
        interface_latency: get("interface_latency")?,
        packets: [get("local_packet")?, get("package_packet")?],
    };
    for (size, rings) in hierarchy.sizes.into_iter().zip(hierarchy.rings) {
        if size > 1 && rings == 0 {
            return Err(bad("a dimension without rings".into()));
        }
    }
    let run = Rings {
        bytes: get("bytes")?.into(),
        chunks: get("chunks")?.into(),
        enhanced: flag(case, "enhanced")?,
        delay: get("delay")?.into(),
    };
    let settings = settings(case)?;
    let (cycles, network) = py.detach(|| run.run(&hierarchy, settings, false)).map_err(refused)?;
    Ok(Found { cycles, traversals: network.traversals(), arrived: Vec::new() })
}

/// Garnet's all-to-all on rings.
#[pyfunction]
pub fn garnet_all_to_all(py: Python<'_>, case: &Bound<'_, PyDict>) -> PyResult<Found> {
    let get = |name: &str| count(case, name);
    let ring = RingOfAll {
        npus: get("npus")?,
        both_ways: flag(case, "both_ways")?,
        bytes: get("bytes")?.into(),
        flit: get("flit")?,
        packet: get("packet")?,
        latencies: [get("link_latency")?, get("interface_latency")?],
    };
    nodes([ring.npus])?;
    let settings = settings(case)?;
    let (cycles, network) =
        py.detach(|| all_to_all_on_a_ring(&ring, settings, false)).map_err(refused)?;
    Ok(Found { cycles, traversals: network.traversals(), arrived: Vec::new() })
}

fn grid(case: &Bound<'_, PyDict>) -> PyResult<Grid> {
    let grid = Grid { k: count(case, "k")?, n: count(case, "n")?, wraps: flag(case, "wraps")? };
    nodes((0..grid.n.min(64)).map(|_| grid.k))?;
    if grid.k == 1 && grid.n > 1 { Err(bad("k is 1 and n is not".into())) } else { Ok(grid) }
}

fn pattern(case: &Bound<'_, PyDict>, grid: &Grid) -> PyResult<Pattern> {
    let pattern: Pattern = get::<String>(case, "pattern")?.parse().map_err(refused)?;
    pattern.fits(grid).map_err(refused)?;
    Ok(pattern)
}

/// Garnet's synthetic traffic on a grid.
#[pyfunction]
pub fn garnet_synthetic(py: Python<'_>, case: &Bound<'_, PyDict>) -> PyResult<Found> {
    let grid = grid(case)?;
    let run = Synthetic {
        grid,
        pattern: pattern(case, &grid)?,
        load: get(case, "load")?,
        flits: count(case, "flits")?,
        cycles: count(case, "cycles")?.into(),
        latencies: [count(case, "link_latency")?, count(case, "interface_latency")?],
    };
    let settings = settings(case)?;
    let (network, arrived) = py.detach(|| run.on_garnet(settings, false)).map_err(refused)?;
    let stuck = network.deadlock().is_some();
    let cycles = (!stuck).then(|| network.now());
    Ok(Found { cycles, traversals: network.traversals(), arrived })
}

/// A network with the router of BookSim2.
fn setup(case: &Bound<'_, PyDict>) -> PyResult<Setup> {
    let pipeline = input_queued::Pipeline {
        route_computation: get(case, "routing")?,
        channel_allocation: get(case, "channel_allocation")?,
        switch_allocation: get(case, "switch_allocation")?,
        switch_traversal: get(case, "traversal")?,
        credit_processing: get(case, "credit_processing")?,
        speculation: flag(case, "speculative")?,
        waits_for_tail_credit: flag(case, "waits_for_tail_credit")?,
        iterations: get(case, "iterations")?,
        ..input_queued::Pipeline::default()
    };
    let settings = input_queued::Settings {
        vcs: get(case, "channels")?,
        buffers_per_vc: get(case, "buffer")?,
        pipeline,
        ..input_queued::Settings::default()
    };
    Ok(Setup { grid: grid(case)?, settings, link: get(case, "link_latency")?, checked: false })
}

/// Latency of BookSim2's empty network: cycles by links between routers.
#[pyfunction]
pub fn booksim_alone(py: Python<'_>, case: &Bound<'_, PyDict>) -> PyResult<BTreeMap<u32, u64>> {
    let (setup, flits) = (setup(case)?, get(case, "flits")?);
    py.detach(|| setup.alone(flits)).map_err(refused)
}

/// Cycles of BookSim2's batches in a row.
#[pyfunction]
pub fn booksim_batches(py: Python<'_>, case: &Bound<'_, PyDict>) -> PyResult<Option<Vec<u64>>> {
    let setup = setup(case)?;
    let packets = (pattern(case, &setup.grid)?, get(case, "flits")?);
    let (batches, seed) = ((get(case, "batches")?, get(case, "packets")?), get(case, "seed")?);
    py.detach(|| setup.batches(packets, batches, seed)).map_err(refused)
}

/// BookSim2's latency at a load.
#[pyfunction]
pub fn booksim_at_load<'py>(
    py: Python<'py>,
    case: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let setup = setup(case)?;
    let load = Load {
        pattern: pattern(case, &setup.grid)?,
        flits: get(case, "flits")?,
        load: get(case, "load")?,
        period: get(case, "period")?,
        warmup: get(case, "warmup")?,
        most: get(case, "most")?,
        limit: get(case, "limit")?,
        seed: get(case, "seed")?,
    };
    let measured = py.detach(|| setup.measure(&load)).map_err(refused)?;
    let found = PyDict::new(py);
    found.set_item("latency", measured.map(|measured| measured.latency))?;
    found.set_item("network_latency", measured.map(|measured| measured.network))?;
    found.set_item("accepted", measured.map(|measured| measured.accepted))?;
    found.set_item("hops", measured.map(|measured| measured.hops))?;
    found.set_item("cycles", measured.map(|measured| measured.cycles))?;
    Ok(found)
}
