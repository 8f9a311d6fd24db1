//! What goes wrong on the other side is one error that quotes the last messages, and the process is
//! always gone afterwards.

mod common;

use common::{after_advance_in_c, backend, example_in_python};
use net_external::{Command, CommandError, Record, VERSION, kinds};
use network::{Backend, Delivery, Transfer, conformance};
use std::path::Path;
use std::time::Instant;
use units::Time;

/// One transfer; the failure that it meets.
fn failure(command: &str, seconds: f64) -> String {
    let transfer = Transfer { src: 0, dst: 1, bytes: 1000, paced: 1000, token: 7, weight: 1 };
    let mut network = backend(command, "Ring(4)", seconds);
    let error = conformance::run(&mut network, &[(Time::ZERO, transfer)]).expect_err(command);
    assert_eq!(network.next_event(), None, "{command}");
    assert_eq!(network.failed(), Some(error.clone()), "{command}");
    error
}

/// A simulator in Python that answers HELLO, reads up to the first ADVANCE, and then runs `then`.
/// There `w(kind, a, b, c, x, y, z)` writes a record.
fn after_advance(then: &str) -> String {
    let text = format!(
        "import os,struct,sys,time\nR=struct.Struct(\"<4I3Q\")\n\
         def w(*n): os.write(1,R.pack(*n))\n\
         def r(): d=sys.stdin.buffer.read(40); return R.unpack(d) if d else sys.exit()\n\
         sys.stdin.buffer.read(r()[5])\nw(1,2,0,0,0,0,0)\n\
         while r()[0]!=6: pass\n{then}\n"
    );
    format!("python3 -c '{text}'")
}

#[test]
fn a_command_that_cannot_run_is_named() {
    assert!(failure("/no/such/simulator", 5.0).starts_with("the command cannot be started: "));
    assert_eq!(Command::parse(""), Err(CommandError::Empty));
}

#[test]
fn a_crash_says_how_it_ended_and_what_was_said_last() {
    let last = "last message to it: HELLO of version 2; last message from it: none";
    let ended = |how: &str| format!("the simulator {how}; {last}");
    // The socket may be closed before or after ours is written.
    assert_eq!(failure("sh -c 'exit 3'", 5.0), ended("ended with exit code 3"));
    assert_eq!(failure("sh -c 'kill -9 $$'", 5.0), ended("was ended by signal 9"));
    let asked = "last message to it: ADVANCE without limit";
    let error = failure(&after_advance("sys.exit(4)"), 5.0);
    assert_eq!(
        error,
        format!(
            "the simulator ended with exit code 4; {asked}; last message from it: HELLO of version 2"
        )
    );
}

/// The socket says what became of a simulator that exchanges messages by shared memory.
#[test]
fn what_ends_without_a_message_in_memory_is_found() {
    let last =
        "last message to it: ADVANCE without limit; last message from it: HELLO of version 2";
    for (name, then, error) in [
        ("aborts", "abort();", "the simulator was ended by signal 6; "),
        ("leaves", "return 3;", "the simulator ended with exit code 3; "),
        ("sleeps", "poll(NULL, 0, 100000);", "the simulator has sent nothing for 1 s "),
        (
            "half",
            "armillary_bytes(\"half a record\", 13); armillary_flush();",
            "the simulator ended with exit code 0 within a message: \"half a record\"; ",
        ),
        (
            "strange",
            "armillary_write(99, 0, 0, 0, 0, 0); armillary_flush();",
            "malformed message: ",
        ),
        ("gives_up", "armillary_error(\"no more\");", "the simulator reports: no more"),
    ] {
        let patience = if name == "sleeps" { 1.0 } else { 30.0 };
        let found = failure(&after_advance_in_c(name, then), patience);
        assert!(found.starts_with(error), "{name}: {found}");
        assert!(found.ends_with(last) || name == "gives_up", "{name}: {found}");
    }
}

#[test]
fn a_hang_ends_after_the_timeout() {
    let begin = Instant::now();
    let error = failure("sleep 100", 0.2);
    let said = "the simulator has sent nothing for 0.2 s (network.external.timeout); last message to \
                it: HELLO of version 2";
    assert!(error.starts_with(said), "{error}");
    assert!(begin.elapsed().as_secs() < 100);
}

/// 2 s of work, with a timeout of 1 s.
#[test]
fn one_that_reports_that_it_is_at_work_is_waited_for() {
    let command = after_advance(
        "[(w(21,0,0,0,5,0,0),time.sleep(0.4)) for _ in range(5)]; w(16,0,0,0,800000,0,7); \
         w(17,0,0,0,2**64-1,0,0); r()",
    );
    let transfer = Transfer { src: 0, dst: 1, bytes: 1000, paced: 1000, token: 7, weight: 1 };
    let mut network = backend(&command, "Ring(4)", 1.0);
    let done = conformance::run(&mut network, &[(Time::ZERO, transfer)]).expect("it answers");
    assert_eq!(done, [Delivery { token: 7, time: Time(800_000) }]);
}

#[test]
fn what_is_no_message_is_quoted() {
    let text = "Welcome to the simulator 3.1! It is a pleasure to meet you.";
    let error = failure(&format!("echo {text:?}"), 5.0);
    assert!(
        error.starts_with("malformed message: \"Welcome to the simulator 3.1! It is a pl"),
        "{error}"
    );
    let error = failure("echo hi", 5.0);
    assert!(error.contains("ended with exit code 0 within a message: \"hi\\n\""), "{error}");
    let error = failure(&after_advance("w(99,1,0,0,0,0,0)"), 5.0);
    assert!(
        error.starts_with("malformed message: unknown kind 99, bytes 63 00 00 00 01"),
        "{error}"
    );
}

#[test]
fn another_version_is_refused() {
    let record = Record { kind: kinds::HELLO, a: VERSION + 1, ..Record::default() };
    let bytes: String = record.encode().iter().map(|byte| format!("\\\\{byte:03o}")).collect();
    let error = failure(&format!("printf {bytes}"), 5.0);
    let wanted = "version 2 was expected; last message to it: HELLO of version 2; last message from \
                  it: HELLO of version 3";
    assert_eq!(error, wanted);
}

#[test]
fn another_exchange_than_socket_and_memory_is_refused() {
    let record = Record { kind: kinds::HELLO, a: VERSION, c: 2, ..Record::default() };
    let bytes: String = record.encode().iter().map(|byte| format!("\\\\{byte:03o}")).collect();
    let error = failure(&format!("printf {bytes}"), 5.0);
    assert!(error.starts_with("it asks for an exchange of unknown kind 2; "), "{error}");
}

#[test]
fn answers_that_break_a_rule_are_refused() {
    for (then, rule) in [
        ("w(16,0,0,0,9,0,8); r()", "no such transfer is under way; "),
        ("w(16,0,0,0,9,0,7); w(16,0,0,0,9,0,7); r()", "no such transfer is under way; "),
        ("w(17,0,0,0,9,0,0); r()", "without a delivery, it must go on to the limit of ADVANCE; "),
        ("w(20,0,0,0,0,0,0); r()", "DELIVERY or NEXT was expected; "),
        ("w(16,0,0,0,9,0,7); w(17,0,0,0,8,0,0); r()", "the next event must not be before 9 ps; "),
        ("w(22,0,0,0,0,4,0); os.write(1,b\"oops\"); r()", "the simulator reports: oops"),
    ] {
        let error = failure(&after_advance(then), 5.0);
        assert!(error.starts_with(rule), "{then}: {error}");
    }
}

/// After the last delivery it is asked what it carried.
#[test]
fn counts_of_what_is_not_there_are_refused() {
    for (answer, rule) in [
        ("w(18,8,0,0,0,0,0)", "there is no such link; "),
        ("w(18,1,0,0,0,0,0); w(18,1,0,0,0,0,0)", "the link was reported before; "),
        ("w(19,99,0,0,0,0,0)", "there is no such count; "),
        ("w(17,0,0,0,0,0,0)", "CARRIED, COUNT or DONE was expected; "),
    ] {
        let until = "w(17,0,0,0,2**64-1,0,0)\nwhile r()[0]!=7: pass";
        let command = after_advance(&format!("w(16,0,0,0,800000,0,7); {until}\n{answer}; r()"));
        let transfer = Transfer { src: 0, dst: 1, bytes: 1000, paced: 1000, token: 7, weight: 1 };
        let mut network = backend(&command, "Ring(4)", 5.0);
        conformance::run(&mut network, &[(Time::ZERO, transfer)]).expect("it answers");
        assert!(network.usage(Time(800_000)).links.is_empty());
        let error = network.failed().expect(answer);
        assert!(error.starts_with(rule), "{answer}: {error}");
    }
}

/// A transfer that never arrives is a stuck network, not a failure.
#[test]
fn a_lost_transfer_is_a_stuck_network() {
    let transfer = Transfer { src: 0, dst: 1, bytes: 1000, paced: 1000, token: 7, weight: 1 };
    let command = after_advance("w(17,0,0,0,2**64-1,0,0); r()");
    let mut network = backend(&command, "Ring(4)", 5.0);
    let done = conformance::run(&mut network, &[(Time::ZERO, transfer)]);
    assert_eq!(done, Ok(Vec::new()));
    assert_eq!(network.stalled().map(|stuck| stuck.transfers), Some(1));
}

#[test]
fn no_process_is_left() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pid-{}", std::process::id()));
    let stubborn = format!(
        "python3 -c 'import os,time; open(\"{}\",\"w\").write(str(os.getpid())); time.sleep(100)'",
        file.display()
    );
    let error = failure(&stubborn, 1.0);
    assert!(error.contains("has sent nothing"), "{error}");
    let pid = std::fs::read_to_string(&file).expect("it has run");
    assert!(!pid.is_empty() && !Path::new("/proc").join(&pid).exists(), "{pid} is left");
    let mut network = backend(&example_in_python(), "Ring(4)", 5.0);
    let transfer = Transfer { src: 0, dst: 1, bytes: 1000, paced: 1000, token: 7, weight: 1 };
    conformance::run(&mut network, &[(Time::ZERO, transfer)]).expect("it runs");
    assert_eq!(network.simulator().as_deref(), Some("queues in Python"));
}
