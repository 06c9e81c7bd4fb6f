//! A signal that ends a program takes with it what the program was writing.

use std::{
    fs,
    io::{self, Read},
    os::{fd::IntoRawFd, unix::net::UnixStream},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
    thread,
};

/// Files that lie beside the places they are for.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Where the handler writes a signal's number.
static PIPE: AtomicI32 = AtomicI32::new(-1);

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry of the list.
#[derive(Debug)]
pub(crate) struct Unfinished(PathBuf);

impl Unfinished {
    /// Makes a file and enters it, without a moment between in which a signal would leave it behind.
    pub(crate) fn make<T>(make: impl FnOnce() -> io::Result<(T, PathBuf)>) -> io::Result<(T, Self)> {
        let mut all = unfinished();
        let (made, path) = make()?;
        all.push(path.clone());
        Ok((made, Self(path)))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().retain(|path| *path != self.0);
    }
}

/// Has SIGINT, SIGTERM and SIGHUP remove unfinished files before they end the program. For programs: a library must leave signals
/// to whoever calls it. Signals that are ignored stay ignored.
///
/// # Errors
/// Returns an error if the system has no pipe or thread left.
pub fn remove_unfinished_when_interrupted() -> io::Result<()> {
    let (mut signals, to_signals) = UnixStream::pair()?;
    let thread = thread::Builder::new().name("signals".to_owned()).stack_size(1 << 16);
    thread.spawn(move || {
        let mut signal = [0];
        if signals.read_exact(&mut signal).is_err() {
            return;
        }
        // Kept until the end, so that no file is begun after this.
        let all = unfinished();
        for path in &*all {
            let _ = fs::remove_file(path);
        }
        let signal = libc::c_int::from(signal[0]);
        // SAFETY: both calls take numbers of signals. The program ends as if it had no handler, which its parent can tell.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
        }
        loop {
            thread::park();
        }
    })?;
    PIPE.store(to_signals.into_raw_fd(), Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only calls what a handler may. A zeroed `sigaction` is one without flags and blocked signals.
        unsafe {
            let (mut action, mut before) =
                (std::mem::zeroed::<libc::sigaction>(), std::mem::zeroed::<libc::sigaction>());
            action.sa_sigaction = handle as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            if before.sa_sigaction == libc::SIG_DFL {
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
    Ok(())
}

extern "C" fn handle(signal: libc::c_int) {
    let byte = signal as u8;
    // SAFETY: `write` may be called in handlers; what it does to `errno` is undone for whoever was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(PIPE.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *libc::__errno_location() = errno;
    }
}
