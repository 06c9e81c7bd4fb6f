//! Writes the man pages and shell completions of `floec` and `floe`, as they were built, into folders by their kind:
//! `man/floec-compile.1`, `bash/floec`, `zsh/_floec`, `fish/floec.fish`.
#![warn(missing_docs)]

mod man;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::{Generator, Shell};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<()> {
    let arguments = Command::new("floe-package")
        .about("Writes man pages and shell completions.")
        .arg(
            clap::arg!(<FOLDER> "The folder to write to; made if it is absent")
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .get_matches();
    let folder = arguments.get_one::<PathBuf>("FOLDER").context("a folder is required")?;
    for command in commands() {
        write(&command, folder)?;
    }
    Ok(())
}

/// The command lines that this program was built with.
fn commands() -> Vec<Command> {
    vec![
        floe::command_line::command().name("floe"),
        #[cfg(feature = "floec")]
        floec::command().name("floec"),
    ]
}

/// Writes what belongs to one command line.
///
/// # Errors
/// Returns an error if a file cannot be written; it names the file.
fn write(command: &Command, folder: &Path) -> Result<()> {
    let name = command.get_name();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), name, &mut script);
        // Bash finds the file by the name of the command alone.
        let file = if shell == Shell::Bash { name.to_owned() } else { shell.file_name(name) };
        save(&folder.join(shell.to_string()).join(file), &script)?;
    }
    for (file, page) in man::pages(command)? {
        save(&folder.join("man").join(file), &page)?;
    }
    Ok(())
}

fn save(path: &Path, contents: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::write(path, contents).with_context(|| path.display().to_string())
}
