use net_flit::garnet::Settings;
use net_flit::reference::{Hierarchy, Rings};
fn main() {
    let hierarchy = Hierarchy {
        sizes: [4, 4, 4],
        rings: [2, 4, 4],
        flit: 128,
        widths: [128, 32],
        latencies: [90, 200],
        interface_latency: 90,
        packets: [512, 256],
    };
    for vcs in [50, 8] {
        let run = Rings { bytes: 1 << 20, chunks: 16, enhanced: true, delay: 10 };
        let t = cpu_time::ProcessTime::now();
        let (end, n) = run.run(
            &hierarchy,
            Settings { vcs_per_vnet: vcs, buffers_per_vc: 5000, ..Settings::default() },
            false,
        );
        let s = t.elapsed().as_secs_f64();
        println!("{vcs} {end:?} {s:.3} s {:.2} M/s", n.traversals() as f64 / s / 1e6);
    }
}
