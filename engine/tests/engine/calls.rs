//! The driver calls of INIT, of everything in RUN, and of the end, in every mode of a session, as committed in `calls.txt`.
//! Where a change is meant, `UPDATE_SNAPSHOTS=1 cargo test -p floe-engine --test engine calls` writes the file anew. Scripts read
//! it: a title for each mode, then a line for each operation and its calls. INIT and drop are no part of RUN; all else is.

use crate::support::{driver::API, floats, signalling_parts, write};
use floe_engine::{
    cuda::{InitOptions, Phase, RunError, Scratch, Session, Shared, Wait, Weights, recording},
    plan::Plan,
};
use std::fmt::Write;

type Operation = (&'static str, fn(&mut Session<'_, '_>) -> Result<(), RunError>);

const OPERATIONS: [Operation; 19] = [
    ("write x", |session| session.write("x", &floats([1.0; 4]))),
    ("write x", |session| session.write("x", &floats([1.0; 4]))),
    ("replay", |session| session.replay()),
    ("write x", |session| session.write("x", &floats([1.0; 4]))),
    ("replay_timed", |session| session.replay_timed()),
    ("is_done", |session| session.is_done().map(drop)),
    ("read y", |session| session.read("y", &mut floats([0.0; 4]))),
    ("read total", |session| session.read("total", &mut floats([0.0; 4]))),
    ("input_mut x", |session| session.input_mut("x").map(drop)),
    ("replay", |session| session.replay()),
    ("input_mut x", |session| session.input_mut("x").map(drop)),
    ("output y", |session| session.output("y").map(drop)),
    ("replay", |session| session.replay()),
    ("synchronize_while", |session| session.synchronize_while(|| true)),
    ("reset", |session| session.reset()),
    ("replay", |session| session.replay()),
    ("guard", |session| match session.guard() {
        Ok(_) | Err(RunError::NotGuarded) => Ok(()),
        Err(error) => Err(error),
    }),
    ("choose", |session| {
        session.choose(session.variant().number()).unwrap();
        Ok(())
    }),
    ("synchronize", |session| session.synchronize()),
];

/// One line for each operation.
fn calls(title: &str, options: InitOptions, shares: bool) -> String {
    let bytes = write([signalling_parts()]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    let api = recording::wrap(API, 256);
    // SAFETY: the simulated driver keeps the contract of the real one.
    let weights = shares.then(|| unsafe { Weights::upload(&variant, &api) }.unwrap());
    // SAFETY: as above.
    let scratch = shares.then(|| unsafe { Scratch::allocate(variant.memory().arena, &api, None) }.unwrap());
    let shared = Shared { weights: weights.as_ref(), scratch: scratch.as_ref() };
    recording::take();
    let mut text = format!("{title}\n");
    let mut line = |what: &str| {
        let calls = recording::take();
        let end = ["INIT", "drop"].contains(&what);
        assert!(end || calls.iter().all(|call| call.phase() == Phase::Run), "{what}: {calls:?}");
        let names: Vec<&str> = calls.iter().map(|call| call.name()).collect();
        writeln!(text, "    {what}: {}", if names.is_empty() { "-".to_owned() } else { names.join(" ") }).unwrap();
    };
    // SAFETY: as above.
    let mut session = unsafe { Session::init_shared(variant, &api, options, shared) }.unwrap();
    line("INIT");
    for (name, operation) in OPERATIONS {
        operation(&mut session).unwrap();
        line(name);
    }
    drop(session);
    line("drop");
    text
}

#[test]
fn calls_are_those_of_the_snapshot() {
    let waits = Wait::ALL.map(|wait| match wait {
        Wait::Driver => (wait, ""),
        Wait::Block => (wait, ", waited for asleep"),
        Wait::Spin => (wait, ", waited for by asking the driver"),
        Wait::Poll => (wait, ", waited for by looking at host memory"),
    });
    let mut found = Vec::new();
    for (mapped, memory) in [(false, "device memory"), (true, "mapped host memory")] {
        for (wait, waited) in waits {
            for (guard, guarded) in [(false, ""), (true, ", guarded")] {
                for (shares, shared) in [(false, ""), (true, ", weights and scratch shared")] {
                    let title = format!("Bindings in {memory}{waited}{guarded}{shared}");
                    found.push(calls(&title, InitOptions { mapped, wait, guard, ..InitOptions::default() }, shares));
                }
            }
        }
    }
    let found = found.join("\n");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/calls.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(file, &found).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    assert_eq!(found, committed);
}
