//! A CUDA driver in software. It reads the PTX of a plan, fills the engine's driver table with functions of its own, runs every
//! kernel on the CPU, and watches every access to memory.
//!
//! | module | what it does | begin with |
//! |---|---|---|
//! | [`driver`] | the engine's table: handles, graphs, replays, reports; an [`Emulator`](driver::Emulator) belongs to a thread | `driver/mod.rs` |
//! | [`ptx`] | text to [`Module`](ptx::Module)s: total, with line and column of what is wrong | `ptx/parser.rs` |
//! | [`machine`] | a kernel [decoded](machine::Program) and [launched](machine::launch): a file for each group of instructions | `machine/block.rs` |
//! | [`memory`] | allocations of the device, and which bytes anybody has written | |
//! | [`watch`] | a file for each watch: operands, shared memory, device memory, clusters, steps; coverage and counts | `watch/mod.rs` |
//!
//! A launch goes this way: the driver looks up what each pointer argument stands for ([`driver::Step`]); the
//! machine checks grid, block and shared memory, then runs clusters of blocks, each warp by warp; an instruction decodes its
//! operands once ([`machine::Program::decode`]) and executes for 32 lanes at a time; before an access takes effect, the
//! [`Watch`](machine::Watch) hears of it.
//!
//! To add an instruction, find the file of its group in `machine/`, or add one with a `decode` that takes every modifier off
//! its [`Reader`](machine) and refuses what is left; `program.rs` lists them. Tests compare it with its definition over edge values
//! (`machine/tests.rs`), and `floe-verify instructions` compares a GPU with both.
//!
//! What is modelled and what not, bounds and limits: `ARCHITECTURE.md`, "The GPU in software".
#![warn(missing_docs)]

pub mod driver;
pub mod machine;
pub mod memory;
pub mod ptx;
pub mod watch;
