//! A process for the cases, and another one where it ends: a kernel that goes astray spoils the GPU for the process that
//! launched it, and for nothing else.

use super::replay::Verdict;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

/// Processes that may end in a row, each at its first case: then the GPU is of no more use.
const DEATHS: usize = 8;

/// The option with which a program starts itself; its value is the number of the first case.
pub const CHILD: &str = "--child";

/// What a child says of a case: a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub enum Line {
    /// It is over; seconds that it took.
    Done(Verdict, f64),
    /// It is over, and so is this process: why.
    Broken(String),
}

impl Line {
    /// Says it to the parent.
    ///
    /// # Errors
    /// Those of the pipe.
    pub fn say(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, self)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }
}

/// Runs `count` cases in processes with this one's own command line, and tells of each once. How many were run: all, unless too
/// many in a row ended their process.
///
/// # Errors
/// Returns an error if no process can be started, or one goes on without a case. `tell` has then been called for some.
pub fn supervise(count: usize, mut tell: impl FnMut(usize, Verdict, f64) -> Result<()>) -> Result<usize> {
    let (mut next, mut deaths) = (0, 0);
    while next < count {
        let first = next;
        let mut words = env::args_os();
        let mut child = Command::new(env::current_exe()?)
            // Where Python is the program, its environment is found by this name.
            .arg0(words.next().unwrap_or_default())
            .args(words)
            .args([CHILD, &first.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process for the cases")?;
        let lines = BufReader::new(child.stdout.take().context("its output is a pipe")?).lines();
        let mut broken = None;
        for line in lines.map_while(io::Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Line::Done(verdict, seconds)) if next < count => {
                    tell(next, verdict, seconds)?;
                    next += 1;
                }
                Ok(Line::Broken(why)) => broken = Some(why),
                // Whatever a driver prints.
                Ok(Line::Done(..)) | Err(_) => {}
            }
        }
        let status = child.wait()?;
        if next == count {
            break;
        }
        if status.success() && broken.is_none() {
            bail!("the process for the cases ended before it was through");
        }
        deaths = if next == first { deaths + 1 } else { 1 };
        tell(next, Err(broken.unwrap_or_else(|| format!("the process that ran it ended: {status}"))), 0.0)?;
        next += 1;
        if deaths == DEATHS {
            break;
        }
    }
    Ok(next)
}
