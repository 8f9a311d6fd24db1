//! `_core.flit_run`: a reference run of Garnet, straight on its routers.

use net_flit::Grid;
use net_flit::garnet::{Arrival, Settings};
use net_flit::reference::{Hierarchy, Pattern, RingOfAll, Rings, Synthetic, all_to_all_on_a_ring};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Most nodes of a run.
const NODES: u64 = 1 << 20;

fn bad(text: String) -> PyErr {
    PyValueError::new_err(text)
}

/// A number of `case` above 0.
fn count(case: &Bound<'_, PyDict>, name: &str) -> PyResult<u32> {
    let value = case.get_item(name)?.ok_or_else(|| bad(format!("no {name}")))?;
    let number: u32 = value.extract().map_err(|_| bad(format!("invalid {name}: {value}")))?;
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

/// What a run comes to.
struct Found {
    cycles: Option<u64>,
    traversals: u64,
    arrived: Vec<Arrival>,
}

/// An all-reduce on rings in three dimensions.
fn all_reduce(py: Python<'_>, case: &Bound<'_, PyDict>) -> PyResult<Found> {
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
    let (cycles, network) = py.detach(|| run.run(&hierarchy, settings, false));
    Ok(Found { cycles, traversals: network.traversals(), arrived: Vec::new() })
}

/// An all-to-all on rings.
fn all_to_all(py: Python<'_>, case: &Bound<'_, PyDict>) -> PyResult<Found> {
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
    let (cycles, network) = py.detach(|| all_to_all_on_a_ring(&ring, settings, false));
    Ok(Found { cycles, traversals: network.traversals(), arrived: Vec::new() })
}

/// Synthetic traffic on a grid.
fn synthetic(py: Python<'_>, case: &Bound<'_, PyDict>) -> PyResult<Found> {
    let get = |name: &str| count(case, name);
    let grid = Grid { k: get("k")?, n: get("n")?, wraps: flag(case, "wraps")? };
    nodes((0..grid.n).map(|_| grid.k))?;
    let text = |name: &str| -> PyResult<String> {
        case.get_item(name)?.ok_or_else(|| bad(format!("no {name}")))?.extract()
    };
    let load = case.get_item("load")?.ok_or_else(|| bad("no load".into()))?.extract()?;
    let pattern: Pattern = text("pattern")?.parse().map_err(bad)?;
    let run = Synthetic {
        grid,
        pattern,
        load,
        flits: get("flits")?,
        cycles: get("cycles")?.into(),
        latencies: [get("link_latency")?, get("interface_latency")?],
    };
    let settings = settings(case)?;
    let (network, arrived) = py.detach(|| run.on_garnet(settings, false));
    let stuck = network.deadlock().is_some();
    let cycles = (!stuck).then(|| network.now());
    Ok(Found { cycles, traversals: network.traversals(), arrived })
}

/// Runs `case` on Garnet's routers. All keys are in `armillary.validation.flits`. `cycles` is `None`
/// if the network locks up.
#[pyfunction]
pub fn flit_run<'py>(py: Python<'py>, case: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let kind: String = case.get_item("kind")?.map_or(Ok(String::new()), |kind| kind.extract())?;
    let Found { cycles, traversals, arrived } = match kind.as_str() {
        "all_reduce" => all_reduce(py, case),
        "all_to_all" => all_to_all(py, case),
        "synthetic" => synthetic(py, case),
        _ => Err(bad(format!("unknown kind {kind:?}"))),
    }?;
    let mean = |of: fn(&Arrival) -> u64| {
        arrived.iter().map(|arrival| of(arrival) as f64).sum::<f64>() / arrived.len().max(1) as f64
    };
    let found = PyDict::new(py);
    found.set_item("cycles", cycles)?;
    found.set_item("traversals", traversals)?;
    found.set_item("packets", arrived.len())?;
    found.set_item("network_latency", mean(|arrival| arrival.network))?;
    found.set_item("queue_latency", mean(|arrival| arrival.queued))?;
    Ok(found)
}
