//! `-v` and `-q` of the command lines: what they say on standard error beside errors.

use clap::{ArgAction, Args};
use env_logger::{Builder, Env};
use log::LevelFilter;
use std::{
    io::{self, IsTerminal},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether the command line of this process says `-q`.
static QUIET: AtomicBool = AtomicBool::new(false);

/// How much a command says on standard error. Results on standard output stay as they are.
#[derive(Args, Clone, Copy, Debug)]
pub struct Verbosity {
    /// Tell on standard error what is done; -vv: in detail
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 1001)]
    verbose: u8,
    /// Say nothing on standard error but errors: neither warnings nor progress
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 1002)]
    quiet: bool,
}

impl Verbosity {
    /// Starts the logger, and keeps progress to itself where that is asked for. Without either option `RUST_LOG` says what is logged.
    pub fn begin(self) {
        QUIET.store(self.quiet, Ordering::Relaxed);
        let mut builder = Builder::new();
        match (self.quiet, self.verbose) {
            (true, _) => builder.filter_level(LevelFilter::Error),
            (false, 0) => builder.parse_env(Env::default().default_filter_or("warn")),
            (false, 1) => builder.filter_level(LevelFilter::Info),
            (false, _) => builder.filter_level(LevelFilter::Debug),
        };
        // Whoever calls this a second time in one process keeps the first logger.
        let _ = builder.format_timestamp(None).try_init();
    }
}

/// Whether there is to be nothing but errors on standard error.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether progress is shown: on a terminal, and without `-q`.
pub fn shows_progress() -> bool {
    !is_quiet() && io::stderr().is_terminal()
}
