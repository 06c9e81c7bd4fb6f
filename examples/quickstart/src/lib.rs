//! See `main.rs`, run with `cargo run --release --example quickstart`.
