//! What a device is, and the runtime for it.

use super::remote::{Remote, quoted};
use crate::output::usage;
use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use std::{
    fmt::{self, Display, Formatter},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// What a device says of itself; empty where it says nothing.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// As `uname -m` has it.
    processor: String,
    /// As the device tree names it.
    board: String,
    /// Release of Jetson Linux.
    l4t: String,
    libc: String,
    /// Where the device's own `floe` is.
    floe: String,
}

/// What a script runs on.
const ANY: &str = "any";

const PROBE: &str = r#"echo "processor=$(uname -m)"
echo "board=$(tr -d '\000' 2>/dev/null < /proc/device-tree/model)"
echo "l4t=$(sed -n 's/^# R\([0-9]*\) .*REVISION: *\([0-9.]*\).*/\1.\2/p' /etc/nv_tegra_release 2>/dev/null)"
echo "libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)"
echo "floe=$(command -v floe)"
echo "sha256sum=$(command -v sha256sum)""#;

impl Machine {
    /// Asks a device what it is.
    ///
    /// # Errors
    /// Returns an error if the device cannot be reached, or lacks what files are compared with.
    pub fn of(remote: &Remote) -> Result<Self> {
        let said = remote.output(PROBE)?;
        let field = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_default().to_owned()
        };
        if field("sha256sum").is_empty() {
            bail!(
                "{}: no sha256sum, with which copies are compared with what is there: install coreutils or busybox on the device",
                remote.host()
            );
        }
        let [processor, board, l4t, libc, floe] = ["processor", "board", "l4t", "libc", "floe"].map(field);
        Ok(Self { processor, board, l4t, libc, floe })
    }

    /// Sees to it that the device has a runtime, and returns the word of the shell that starts it: the program given, else one
    /// of this machine that fits the device's processor, else what the device has.
    ///
    /// # Errors
    /// Returns an error if there is none, it is for another processor, or it cannot be copied.
    pub fn install(&self, remote: &Remote, given: Option<&Path>) -> Result<String> {
        let local = usage(self.local(remote, given))?;
        let Some(local) = local else { return Ok(quoted(&self.floe)) };
        let (copied, _) = remote.copy(&local, "bin/floe", true)?;
        // Before a plan travels: a program for a newer C library would fail with every one.
        let version = remote
            .output("bin/floe --version")
            .map_err(|_| anyhow!("{} does not run on {} ({self})", local.display(), remote.host()))?;
        let what = if copied { "copied" } else { "is there already" };
        crate::output::print(&format!("{}: {} {what}\n", remote.host(), version.trim()))?;
        Ok("bin/floe".to_owned())
    }

    /// The program to copy: the one that is given, or one beside this program that fits. `None` where the device's own is used.
    fn local(&self, remote: &Remote, given: Option<&Path>) -> Result<Option<PathBuf>> {
        let beside =
            beside(&self.processor).into_iter().find(|path| processor(path).is_ok_and(|found| found == self.processor));
        let local = match given {
            Some(path) => {
                let found = processor(path)?;
                if found != self.processor && found != ANY {
                    bail!("--floe {} is for {found}, {} is of {}", path.display(), remote.host(), self.processor);
                }
                Some(path.to_owned())
            }
            None => beside,
        };
        if local.is_none() && self.floe.is_empty() {
            bail!(
                "no floe for {0} is beside floec, and {1} has none: name one with --floe, or build it with `cargo build \
                 --release --package floe --target {0}-unknown-linux-gnu`",
                self.processor,
                remote.host()
            );
        }
        Ok(local)
    }
}

impl Display for Machine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let l4t = if self.l4t.is_empty() { String::new() } else { format!("Jetson Linux {}", self.l4t) };
        let said = [&self.board, &self.processor, &l4t, &self.libc];
        let said: Vec<&str> = said.into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        f.write_str(&said.join(", "))
    }
}

/// Where a runtime for a processor may be: beside this program, where cargo puts what is built for another target, and where
/// packages do.
fn beside(processor: &str) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(folder) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        places.push(folder.join("floe"));
        if let (Some(profile), Some(target)) = (folder.file_name(), folder.parent()) {
            places.push(target.join(format!("{processor}-unknown-linux-gnu")).join(profile).join("floe"));
        }
    }
    places.push(format!("/usr/lib/floe/{processor}/floe").into());
    places
}

/// The processor that a program of Linux is for, as `uname -m` names it; [`ANY`] for a script.
fn processor(path: &Path) -> Result<String> {
    let mut head = [0; 20];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.with_context(|| format!("cannot read '{}'", path.display()))?;
    if head.starts_with(b"#!") {
        return Ok(ANY.to_owned());
    }
    if head[..6] != *b"\x7fELF\x02\x01" {
        bail!("'{}' is no program of 64-bit Linux", path.display());
    }
    Ok(match u16::from_le_bytes([head[18], head[19]]) {
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        other => format!("processor {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::processor;

    #[test]
    fn a_program_names_its_processor() {
        assert_eq!(processor(&std::env::current_exe().unwrap()).unwrap(), std::env::consts::ARCH);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "#!/bin/sh\nexit 0 # long enough").unwrap();
        assert_eq!(processor(file.path()).unwrap(), super::ANY);
        std::fs::write(file.path(), "no program, and long enough").unwrap();
        assert!(processor(file.path()).unwrap_err().to_string().contains("no program of 64-bit Linux"));
    }
}
