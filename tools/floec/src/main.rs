//! Floe's command line of the workstation.

fn main() -> std::process::ExitCode {
    floec::main()
}
