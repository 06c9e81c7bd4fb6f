//! The driver calls of INIT, of everything in RUN, and of the end, as committed in `calls.txt`. Where a change is meant,
//! `UPDATE_SNAPSHOTS=1 cargo test -p floe-engine --test calls` writes the file anew.

mod support;

use floe_engine::{
    cuda::{InitOptions, RunError, Session, recording},
    plan::Plan,
};
use std::fmt::Write;
use support::{cuda_parts, driver::API, floats, write};

type Operation = (&'static str, fn(&mut Session<'_, '_>) -> Result<(), RunError>);

const OPERATIONS: [Operation; 10] = [
    ("write x", |session| session.write("x", &floats([1.0; 4]))),
    ("write x", |session| session.write("x", &floats([1.0; 4]))),
    ("replay", |session| session.replay()),
    ("write x", |session| session.write("x", &floats([1.0; 4]))),
    ("replay_timed", |session| session.replay_timed()),
    ("is_done", |session| session.is_done().map(drop)),
    ("read y", |session| session.read("y", &mut floats([0.0; 4]))),
    ("read total", |session| session.read("total", &mut floats([0.0; 4]))),
    ("reset", |session| session.reset()),
    ("synchronize", |session| session.synchronize()),
];

/// One line for each operation.
fn calls(title: &str, options: InitOptions) -> String {
    let bytes = write([cuda_parts()]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    let api = recording::wrap(API, 256);
    let mut text = format!("{title}\n");
    let mut line = |what: &str| {
        let calls = recording::take();
        let names: Vec<&str> = calls.iter().map(|call| call.name()).collect();
        writeln!(text, "    {what}: {}", if names.is_empty() { "-".to_owned() } else { names.join(" ") }).unwrap();
    };
    // SAFETY: the simulated driver keeps the contract of the real one.
    let mut session = unsafe { Session::init(variant, &api, options) }.unwrap();
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
    let found = [
        calls("Bindings in device memory", InitOptions::default()),
        calls("Bindings in mapped host memory", InitOptions { mapped: true, ..InitOptions::default() }),
    ]
    .join("\n");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/calls.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(file, &found).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    assert_eq!(found, committed);
}
