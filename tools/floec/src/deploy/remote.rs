//! A machine at the other end of the user's own ssh: scripts run there, and files copied and fetched, over one connection.

use crate::output;
use anyhow::{Context, Result, bail};
use floe::{digest, usage::usage};
use floe_files::OutputFile;
use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    process::{Command, ExitStatus, Stdio},
};
use tempfile::TempDir;

/// What ssh exits with where it, and not the program it ran, has failed.
const SSH_FAILED: i32 = 255;

/// A machine, and a folder on it.
pub struct Remote {
    /// `ssh` with the user's options and ours.
    ssh: Vec<String>,
    host: String,
    folder: String,
    /// Holds the socket of the shared connection.
    _sockets: TempDir,
}

impl Remote {
    /// A machine as `[user@]host`, reached by a command line such as `ssh -p 2222`. Connects with the first script.
    ///
    /// # Errors
    /// Returns an error if there is no place for the connection's socket.
    pub fn new(ssh: &str, host: &str, folder: &str) -> Result<Self> {
        let sockets = tempfile::Builder::new().prefix("floec-").tempdir().context("cannot make a temporary folder")?;
        let mut words: Vec<String> = ssh.split_whitespace().map(str::to_owned).collect();
        // One connection, and so one password at most, for all that follows; it ends by itself.
        for option in [
            "ControlMaster=auto".into(),
            format!("ControlPath={}/%C", sockets.path().display()),
            "ControlPersist=20".into(),
        ] {
            words.extend(["-o".to_owned(), option]);
        }
        Ok(Self { ssh: words, host: host.to_owned(), folder: folder.to_owned(), _sockets: sockets })
    }

    /// The machine's name, as the user wrote it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// A script of the POSIX shell, ready to run in the folder.
    fn script(&self, script: &str) -> Command {
        let mut command = Command::new(&self.ssh[0]);
        let in_folder = format!("mkdir -p {0} && cd {0} && {{\n{script}\n}}", quoted(&self.folder));
        log::info!("{}: {script}", self.host);
        // The user's shell there may be any; it hands the script on.
        command.args(&self.ssh[1..]).args([&self.host, "--"]).arg(format!("sh -c {}", quoted(&in_folder)));
        command
    }

    fn started<T>(&self, result: io::Result<T>) -> Result<T> {
        result.with_context(|| format!("cannot start '{}', with which {} is reached", self.ssh[0], self.host))
    }

    fn failed(&self, status: ExitStatus, what: &str) -> anyhow::Error {
        match status.code() {
            Some(SSH_FAILED) => {
                anyhow::anyhow!("cannot reach {0}: does `{1} {0} true` work?", self.host, self.ssh[0])
            }
            _ => anyhow::anyhow!("{}: {what} ({status})", self.host),
        }
    }

    /// Runs a script and returns what it printed.
    ///
    /// # Errors
    /// Returns an error if the machine cannot be reached, or the script fails.
    pub fn output(&self, script: &str) -> Result<String> {
        let mut command = self.script(script);
        let output = self.started(command.stdin(Stdio::null()).stderr(Stdio::inherit()).output())?;
        if !output.status.success() {
            return Err(self.failed(output.status, "a command failed"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a script whose words go to the user as they come, and returns its exit code.
    ///
    /// # Errors
    /// Returns an error if the machine cannot be reached, or a signal ended the script.
    pub fn run(&self, script: &str) -> Result<i32> {
        let status = self.started(self.script(script).stdin(Stdio::null()).status())?;
        match status.code() {
            None | Some(SSH_FAILED) => Err(self.failed(status, "the connection ended")),
            Some(code) => Ok(code),
        }
    }

    /// Copies a file into the folder unless it is there already, and returns whether it was copied, and its SHA-256. A file that arrives
    /// damaged, or not whole, does not take the place of an older one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, the machine cannot be reached, or the file does not arrive.
    pub fn copy(&self, local: &Path, name: &str, executable: bool) -> Result<(bool, String)> {
        let digest = digest::of_file(local).with_context(|| format!("cannot read '{}'", local.display()));
        let digest = usage(digest)?;
        let there = self.output(&format!("[ ! -f {0} ] || sha256sum < {0}", quoted(name)))?;
        if there.split_whitespace().next() == Some(&digest) {
            return Ok((false, digest));
        }
        let mode = if executable { 755 } else { 644 };
        let script = format!(
            "mkdir -p \"$(dirname {name})\" && part={name}.part.$$ && trap 'rm -f \"$part\"' EXIT && cat > \"$part\" && \
             [ \"$(sha256sum < \"$part\" | cut -d ' ' -f 1)\" = {digest} ] && chmod {mode} \"$part\" && mv \"$part\" {name}",
            name = quoted(name)
        );
        let mut child = self.started(self.script(&script).stdin(Stdio::piped()).spawn())?;
        let mut input = child.stdin.take().context("no pipe to ssh")?;
        let sent = send(local, &mut input);
        drop(input);
        let status = child.wait()?;
        match sent {
            // Why the pipe broke is what ssh or the script says.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).with_context(|| format!("cannot copy '{}'", local.display()))
            }
            _ if status.success() => Ok((true, digest)),
            _ => Err(self.failed(status, &format!("'{}' did not arrive", local.display()))),
        }
    }

    /// Fetches a file of the folder, whole or not at all.
    ///
    /// # Errors
    /// Returns an error if the file is not there, cannot be written, or the machine cannot be reached.
    pub fn fetch(&self, name: &str, local: &Path) -> Result<()> {
        let context = || format!("cannot write '{}'", local.display());
        let mut child = self.script(&format!("cat {}", quoted(name)));
        let mut child = self.started(child.stdin(Stdio::null()).stdout(Stdio::piped()).spawn())?;
        let mut file = OutputFile::create(local).with_context(context)?;
        io::copy(&mut child.stdout.take().context("no pipe from ssh")?, file.as_file_mut()).with_context(context)?;
        let status = child.wait()?;
        if !status.success() {
            return Err(self.failed(status, &format!("cannot fetch '{name}'")));
        }
        file.commit().with_context(context)
    }

    /// Fetches every file of a folder, which may hold folders.
    ///
    /// # Errors
    /// As [`Remote::fetch`]; also if a name there would leave `local`.
    pub fn fetch_folder(&self, name: &str, local: &Path) -> Result<Vec<String>> {
        let list = self.output(&format!("cd {} && find . -type f", quoted(name)))?;
        let mut fetched = Vec::new();
        for found in list.lines() {
            let found = found.strip_prefix("./").unwrap_or(found);
            if found.split('/').any(|part| part == ".." || part.is_empty()) {
                bail!("{}: '{found}' is no name of a file below '{name}'", self.host);
            }
            let place = local.join(found);
            if let Some(folder) = place.parent() {
                std::fs::create_dir_all(folder).with_context(|| format!("cannot make '{}'", folder.display()))?;
            }
            self.fetch(&format!("{name}/{found}"), &place)?;
            fetched.push(found.to_owned());
        }
        Ok(fetched)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The shared connection would keep this process's standard error open, and whoever reads it waiting.
        let mut command = Command::new(&self.ssh[0]);
        command.args(&self.ssh[1..]).args(["-O", "exit", &self.host]);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Sends a file, with a bar on a terminal.
fn send(local: &Path, to: &mut impl Write) -> io::Result<()> {
    let mut file = File::open(local)?;
    let bar = output::bar("{spinner} copy {msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}");
    bar.set_length(file.metadata()?.len());
    bar.set_message(local.file_name().unwrap_or_default().to_string_lossy().into_owned());
    let mut buffer = vec![0; 1 << 16];
    let sent = loop {
        match file.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(read) => match to.write_all(&buffer[..read]) {
                Ok(()) => bar.inc(read as u64),
                Err(error) => break Err(error),
            },
            Err(error) => break Err(error),
        }
    };
    bar.finish_and_clear();
    sent
}

/// A word of the shell that means this text and nothing else.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;
    use std::process::Command;

    #[test]
    fn a_quoted_word_arrives_as_it_is() {
        for text in ["plain", "two words", "it's", "$(rm -rf x) `y` \\ \" !", "", "-n", "line\nline", "'"] {
            let script = format!("printf %s {}", quoted(text));
            let twice = Command::new("sh").args(["-c", &format!("sh -c {}", quoted(&script))]).output().unwrap();
            assert_eq!(String::from_utf8(twice.stdout).unwrap(), text);
        }
    }
}
