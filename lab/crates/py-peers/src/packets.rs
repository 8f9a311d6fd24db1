//! Collectives of reference runs of ns-3 and htsim, straight on the packet backend.

use net_packet::{Buffer, Settings, Switch, Tcp, TcpControl, Ties, Transport};
use peers::packets::{Order, Trees, all_reduce, star};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use units::{Bandwidth, Bytes, Span};

/// A number of `case`.
fn number(case: &Bound<'_, PyDict>, name: &str) -> PyResult<u64> {
    let value = case.get_item(name)?;
    value.ok_or_else(|| PyValueError::new_err(format!("no {name}")))?.extract()
}

fn settings(case: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let number = |name: &str| number(case, name);
    let small = |name: &str| -> PyResult<u32> {
        u32::try_from(number(name)?)
            .map_err(|_| PyValueError::new_err(format!("{name} is too large")))
    };
    let word: String = case.get_item("control")?.map_or(Ok(String::new()), |v| v.extract())?;
    let control = match word.as_str() {
        "newreno" => TcpControl::NewReno,
        "cubic" => TcpControl::Cubic,
        "dctcp" => TcpControl::Dctcp,
        _ => return Err(PyValueError::new_err(format!("unknown control {word}"))),
    };
    let tcp = Tcp {
        initial_window: small("initial_window")?,
        ack_every: small("ack_every")?,
        sack: number("sack")? == 1,
        window: Bytes(number("window")?),
        rto_min: Span(number("rto_min_ps")?),
        ack_delay: Span(number("ack_delay_ps")?),
        ..Tcp::ns3(control)
    };
    let size = |name: &str| -> PyResult<u16> {
        u16::try_from(number(name)?)
            .map_err(|_| PyValueError::new_err(format!("{name} is too large")))
    };
    let (mtu, header) = (size("mtu")?, size("header")?);
    if mtu <= header {
        let text = format!("an MTU of {mtu} bytes has no room for data after {header} of headers");
        return Err(PyValueError::new_err(text));
    }
    let buffer = Buffer::Port(Bytes(number("buffer")?));
    let switch = Switch { buffer, ties: Ties::InOrder, ..Switch::default() };
    Ok(Settings {
        mtu,
        header,
        framing: size("framing")?,
        tick: Span::from_ns(1),
        switch,
        ..Settings::with(Transport::Tcp(tcp))
    })
}

/// Runs an all-reduce of `case` on hosts at one switch. All keys are in
/// `armillary_lab.peers.packets`.
#[pyfunction]
pub fn packet_all_reduce<'py>(
    py: Python<'py>,
    case: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let get = |name: &str| number(case, name);
    let hosts = u32::try_from(get("hosts")?).map_err(|_| PyValueError::new_err("hosts"))?;
    let link = (Bandwidth(get("bandwidth")?), Span(get("latency_ps")?));
    let network = star(hosts, link, settings(case)?);
    let mut network = network.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let (bytes, seed, order) = (get("bytes")?, get("seed")?, get("order")?);
    let chunks = (get("chunks")? as u32, get("open_chunks")? as u32);
    let (end, network) = py.detach(move || {
        let end = match (chunks.0, order) {
            (0, 0) => all_reduce(&mut network, hosts, bytes, Order::Ascending),
            (0, 1) => all_reduce(&mut network, hosts, bytes, Order::Rotation),
            (0, _) => all_reduce(&mut network, hosts, bytes, Order::Random(seed)),
            _ => Trees::new(&mut network, hosts, chunks).run(bytes),
        };
        (end, network)
    });
    let end = end.ok_or_else(|| PyRuntimeError::new_err("the network is stuck"))?;
    let totals = network.totals();
    let found = PyDict::new(py);
    found.set_item("time_us", end.as_ns() / 1e3)?;
    let (sent, events) = (totals.sent, totals.events);
    let (losses, trips) = (events.losses, events.round_trips);
    found.set_item("drops", events.drops)?;
    found.set_item("retransmits", losses.retransmits)?;
    found.set_item("timeouts", losses.timeouts)?;
    found.set_item("recoveries", losses.fast_recoveries)?;
    found.set_item("data", sent.data)?;
    found.set_item("hops", sent.hops)?;
    found.set_item("longest_queue", events.longest_queue)?;
    found.set_item("rtt_mean_us", trips.mean.as_us())?;
    let sampled =
        [("mean", trips.sampled_mean), ("p50", trips.sampled_p50), ("p99", trips.sampled_p99)];
    for (name, trip) in sampled {
        if let Some(trip) = trip {
            found.set_item(format!("rtt_sampled_{name}_us"), trip.as_us())?;
        }
    }
    Ok(found)
}
