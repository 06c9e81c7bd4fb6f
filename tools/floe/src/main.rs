//! Floe's device command line.

fn main() -> std::process::ExitCode {
    floe::command_line::main()
}
