//! Runs one case directory: astra DIR unaware|aware [args]
use sim::{config::astra_sim, run::*};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let d = &a[1];
    let mut f = vec![format!("--workload-configuration={d}/trace"), format!("--system-configuration={d}/system.json"), format!("--network-configuration={d}/network.yml"), format!("--remote-memory-configuration={d}/memory.json")];
    if std::path::Path::new(&format!("{d}/comm_group.json")).exists() { f.push(format!("--comm-group-configuration={d}/comm_group.json")); }
    f.extend(a[3..].iter().filter(|x| *x != "--events" && *x != "--fold" && *x != "--rep").cloned());
    let args = astra_sim::AstraSimArgs::parse(&f).unwrap_or_else(|p| { p.iter().for_each(|p| println!("ERR {p}")); std::process::exit(2) });
    let (platform, groups) = astra_sim::read(&args).unwrap_or_else(|p| { p.iter().for_each(|p| println!("ERR {p}")); std::process::exit(2) });
    let n = platform.fabric.npus();
    let path = if a.contains(&"--rep".into()) { format!("{d}/trace.0.et") } else { args.workload.clone() };
    let t0 = std::time::Instant::now();
    let c = Config { workload: Source::Traces(path.into()), groups, platform, backend: if a[2] == "aware" { BackendKind::Link } else { BackendKind::Analytical }, fold: a.contains(&"--fold".into()), seed: 0 };
    let w = match read(&c) { Ok(w) => w, Err(e) => { println!("ERR {e}"); std::process::exit(2) } };
    let t1 = std::time::Instant::now();
    let c = Config { workload: Source::Built(Box::new(w)), ..c };
    match run_with(&c, !a.contains(&"--events".into()), &mut |_| true) {
        Ok(o) => {
            let t2 = std::time::Instant::now();
            eprintln!("read {:?} run {:?} transfers {} events {} sim {}", t1 - t0, t2 - t1, o.report.counts.transfers, o.events, o.simulated_ranks);
            for r in 0..n { println!("{} {}", o.finish(r).0 / 1000, o.exposed(r).0 / 1000); }
        }
        Err(e) => { println!("ERR {e}"); std::process::exit(1) }
    }
}
