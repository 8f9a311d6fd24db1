//! Runs that must be refused, and what is said of them.

use graph::{Node, Op, ProgramBuilder, Workload};
use sim::{Config, Error, Outcome, check, read, run};
use units::Span;

/// Runs; what the run refuses the check refuses, too, in the same words, and nothing else.
pub fn run_and_check(config: &Config) -> Result<Outcome, Error> {
    let outcome = run(config, &mut |_| true);
    let checked =
        read(config).and_then(|workload| check(&workload, &config.platform, &config.backend));
    let refused = |error: &Error| {
        if let Error::Input(problems) = error { problems.clone() } else { Vec::new() }
    };
    assert_eq!(
        outcome.as_ref().err().map(refused).unwrap_or_default(),
        checked.as_ref().err().map(refused).unwrap_or_default()
    );
    outcome
}

/// Exactly one problem, and each of its parts has what is asked for.
pub fn one_problem(name: &str, answer: Result<Outcome, Error>, parts: [&str; 4]) {
    let problems = match answer {
        Err(Error::Input(problems)) => problems,
        Err(other) => panic!("{name}: {other}"),
        Ok(_) => panic!("{name}: it runs"),
    };
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{name}: {shown:#?}");
    let problem = &problems[0];
    assert!(problem.file.ends_with(parts[0]), "{name}: file {}", problem.file);
    for (said, wanted) in
        [&problem.place, &problem.message, &problem.help].into_iter().zip(&parts[1..])
    {
        assert!(said.contains(wanted), "{name}: {said:?} has no {wanted:?} in {shown:#?}");
    }
}

/// Place and message of every problem.
pub fn told(answer: Result<Outcome, Error>) -> Vec<String> {
    match answer {
        Err(Error::Input(problems)) => {
            problems.iter().map(|p| format!("{}: {}", p.place, p.message)).collect()
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it runs"),
    }
}

/// A workload in which every rank does `ops`.
pub fn everywhere(ops: &[Op], ranks: u32) -> Workload {
    let mut builder = ProgramBuilder::default();
    for (id, op) in ops.iter().enumerate() {
        builder.push(Node { id: id as u64, duration: Span::from_ns(10), op: *op }, "", []);
    }
    Workload::uniform(builder.build().expect("ids are unique"), ranks)
}
