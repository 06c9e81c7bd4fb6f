//! Files and text that leave the program: whole or not at all.

pub use floe::usage::{Usage, keep_inputs, usage, written};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    cell::RefCell,
    io::{self, Write},
    path::Path,
    time::Duration,
};

thread_local! {
    /// What commands print on this thread while [`captured`] runs them.
    static CAPTURED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a command of this thread, and returns what it prints beside its result.
pub fn captured<T>(run: impl FnOnce() -> T) -> (String, T) {
    CAPTURED.set(Some(String::new()));
    let result = run();
    (CAPTURED.take().unwrap_or_default(), result)
}

/// Whether a path of the command line means standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes a file, whole or not at all; `-` is standard output.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if is_stdout(path) {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        return Ok(out.flush()?);
    }
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let result = floe_files::write(path, bytes);
    let hint = match result.as_ref().map_err(io::Error::kind) {
        Err(NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem) => ": is its folder there and writable?",
        _ => "",
    };
    written(format_args!("cannot write '{}'{hint}", path.display()), result)
}

/// Text without commands to a terminal: names in models may hold any character.
pub fn harmless(text: &str) -> String {
    text.split('\n').map(floe_compiler::emit::printable).collect::<Vec<_>>().join("\n")
}

/// Prints text to standard output, telling a closed pipe as an error instead of a panic.
pub fn print(text: &str) -> anyhow::Result<()> {
    let is_captured =
        CAPTURED.with_borrow_mut(|captured| captured.as_mut().map(|captured| captured.push_str(text)).is_some());
    if is_captured {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(harmless(text).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Whether the reader of our output has gone.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A bar on a terminal, nothing elsewhere or with `-q`.
pub fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::no_length().with_style(bar_style(template));
    if !floe::verbosity::shows_progress() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// What a bar looks like.
fn bar_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a fixed template")
}

const SPINNER: &str = "{spinner} {msg}";

/// A spinner beside what is done.
pub fn spinner() -> ProgressBar {
    let bar = bar(SPINNER);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Begins a phase of a spinner's work.
pub fn begin(spinner: &ProgressBar, phase: &str) {
    log::info!("{phase}");
    spinner.set_style(bar_style(SPINNER));
    spinner.set_message(phase.to_owned());
}

/// Shows how many parts of the phase are done, and what `more` tells of them.
pub fn count(spinner: &ProgressBar, done: usize, total: usize, more: &str) {
    spinner.set_style(bar_style(&format!("{SPINNER} {{wide_bar}} {{pos}}/{{len}}{more}")));
    spinner.set_length(total as u64);
    spinner.set_position(done as u64);
}

/// A number of bytes for people: `51.1 MB` (decimal units).
pub fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}
