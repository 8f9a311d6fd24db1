//! The examples in C and Python keep the contract, and are the link-queue backend with store and
//! forward. Python 3 and a C compiler are needed.

mod common;

use common::{backend, example_in_c, example_in_python, topology};
use net_analytical::{LinkQueues, Switching};
use net_external::External;
use network::{Backend, Transfer, conformance};
use units::{Span, Time};

/// 60 messages of five sizes among eight NPUs, four at a time.
fn traffic() -> Vec<(Time, Transfer)> {
    let transfer = |token: u64| {
        let src = (token * 5 % 8) as u32;
        let dst = (src + 1 + (token / 3 % 7) as u32) % 8;
        let bytes = [0, 1, 4096, 70_001, 1_000_003][(token % 5) as usize];
        let transfer = Transfer { src, dst, bytes, paced: bytes, token, weight: 1 + token / 7 % 2 };
        (Time(token / 4 * 3_000_000), transfer)
    };
    (0..60).map(transfer).collect()
}

/// Through at most four links, a message alone takes its time on each of them.
fn bound(backend: &External, transfer: &Transfer) -> Span {
    backend.physical_minimum(transfer.src, transfer.dst, transfer.bytes) * 16
}

#[test]
fn the_example_in_c_keeps_the_contract() {
    let command = example_in_c();
    for name in ["Ring(8)", "Switch(8)", "Ring(4)_Switch(2)"] {
        let make = || backend(&command, name, 10.0);
        assert_eq!(conformance::check(make, &traffic(), bound), Ok(()), "{name}");
    }
}

#[test]
fn the_example_in_python_keeps_the_contract() {
    let make = || backend(&example_in_python(), "Ring(4)_Switch(2)", 10.0);
    assert_eq!(conformance::check(make, &traffic()[..8], bound), Ok(()));
}

/// Links, transfers and deliveries of one time are each more than the shared memory holds at once.
#[test]
fn more_than_fits_into_the_memory_goes_through_it() {
    let npus = 200;
    let transfer = |token: u64| {
        let (src, step) = ((token % npus) as u32, (token / npus) as u32 + 1);
        let dst = (src + step) % npus as u32;
        Transfer { src, dst, bytes: 1000, paced: 1000, token, weight: 1 }
    };
    let traffic: Vec<_> =
        (0..npus * (npus - 1)).map(|token| (Time::ZERO, transfer(token))).collect();
    let mut network = backend(&example_in_c(), "FullyConnected(200)", 60.0);
    let done = conformance::run(&mut network, &traffic).expect("it runs");
    assert_eq!(done.len(), 39_800);
    // 1,000 B at 10 GB/s, and 500 ns.
    assert!(done.iter().all(|delivery| delivery.time == Time(600_000)), "{:?}", done[0]);
}

/// To the picosecond, with what each link has carried.
#[test]
fn both_are_the_link_queue_backend() {
    for name in ["Ring(8)", "Switch(8)", "FullyConnected(8)", "Ring(4)_Switch(2)"] {
        let parts = topology(name);
        let mut queues = LinkQueues::new(parts.links, parts.costs, false)
            .with_switching(Switching::StoreAndForward);
        let mut wanted = conformance::run(&mut queues, &traffic()).expect("it runs");
        wanted.sort_by_key(|delivery| (delivery.time, delivery.token));
        for command in [example_in_c(), example_in_python()] {
            let mut external = backend(&command, name, 10.0);
            let mut found = conformance::run(&mut external, &traffic()).expect("it runs");
            found.sort_by_key(|delivery| (delivery.time, delivery.token));
            assert_eq!(found, wanted, "{name}: {command}");
            let carried = |usage: network::Usage| -> Vec<_> {
                usage.links.iter().map(|l| (l.from, l.to, l.busy)).collect()
            };
            assert_eq!(
                external.usage(Time::MAX).bytes,
                queues.usage(Time::MAX).bytes,
                "{name}: {command}"
            );
            assert_eq!(
                carried(external.usage(Time::MAX)),
                carried(queues.usage(Time::MAX)),
                "{name}: {command}"
            );
        }
    }
}
