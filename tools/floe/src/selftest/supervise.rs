//! A process for the cases, and another one where it ends: a kernel that goes astray spoils the GPU for the process that
//! launched it, and for nothing else.

use super::replay::Verdict;
use anyhow::{Context, Result, bail};
use std::{
    env, fmt,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

/// Processes that may end in a row, each at its first case: then the GPU is of no more use.
const DEATHS: usize = 8;

/// The option with which a program starts itself; its value is the number of the first case.
pub const CHILD: &str = "--child";

/// What a child says of a case, on a line of standard output.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// It is over; seconds that it took.
    Done(Verdict, f64),
    /// It is over, and so is this process: why.
    Broken(String),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |why: &str| why.replace('\n', " ");
        match self {
            Self::Done(Ok(error), seconds) => write!(f, "passed {seconds} {error}"),
            Self::Done(Err(why), seconds) => write!(f, "failed {seconds} {}", one_line(why)),
            Self::Broken(why) => write!(f, "broken {}", one_line(why)),
        }
    }
}

impl Line {
    /// The line, unless it is something that a driver printed.
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        if word == "broken" {
            return Some(Self::Broken(rest.to_owned()));
        }
        let (seconds, rest) = rest.split_once(' ')?;
        let verdict = match word {
            "passed" => Ok(rest.parse().ok()?),
            "failed" => Err(rest.to_owned()),
            _ => return None,
        };
        Some(Self::Done(verdict, seconds.parse().ok()?))
    }

    /// Says it to the parent.
    ///
    /// # Errors
    /// Those of the pipe.
    pub fn say(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{self}")?;
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
            match Line::parse(&line) {
                Some(Line::Done(verdict, seconds)) if next < count => {
                    tell(next, verdict, seconds)?;
                    next += 1;
                }
                Some(Line::Broken(why)) => broken = Some(why),
                Some(Line::Done(..)) | None => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_says_is_heard() {
        for line in [
            Line::Done(Ok(1.25e-300), 0.5),
            Line::Done(Err("output 0: wrong".into()), 0.0),
            Line::Done(Err(String::new()), 1e9),
            Line::Broken("cuInit failed".into()),
        ] {
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        assert_eq!(Line::Broken("a\nb".into()).to_string(), "broken a b");
        for other in ["", "passed", "passed 1", "passed x 1", "passed 1 x", "NVIDIA says hello"] {
            assert_eq!(Line::parse(other), None, "{other}");
        }
    }
}
