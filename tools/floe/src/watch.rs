//! What watches INIT and replays from another thread: a deadline, which ends the process, or a service's watchdog, which is
//! fed as long as nothing takes too long. Neither depends on a call of the driver to return.

use anyhow::{Context, Result, bail};
use std::{
    env, io,
    os::{
        linux::net::SocketAddrExt,
        unix::ffi::OsStrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// What is being done, and since when; nothing between replays.
type Work = Option<(&'static str, Instant)>;

/// Watches work; by default nothing does.
#[derive(Debug, Default)]
pub struct Watch {
    work: Arc<Mutex<Work>>,
    socket: Option<Arc<UnixDatagram>>,
}

/// Work that is being watched, until this is dropped.
#[derive(Debug)]
pub struct Working<'w>(&'w Watch);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl Watch {
    /// Ends the process with exit code 1, after a message that begins with `name`, where work takes longer than `limit`.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn deadline(limit: Duration, name: String) -> Result<Self> {
        let watch = Self::default();
        let work = watch.work.clone();
        let watching = move || {
            loop {
                if let Some((what, since)) = current(&work)
                    && since.elapsed() >= limit
                {
                    let limit = limit.as_millis();
                    eprintln!("error: {name}: {what} has not finished within {limit} ms (--deadline)");
                    // SAFETY: ends the process at once. `exit` would call the driver's own functions first, which may wait
                    // for the GPU.
                    unsafe { libc::_exit(1) }
                }
                // At most a quarter late.
                thread::sleep(limit / 4);
            }
        };
        thread::Builder::new().name("deadline".to_owned()).spawn(watching)?;
        Ok(watch)
    }

    /// In a service of systemd: tells that it is ready ([`Self::ready`]), and, where the service has a `WatchdogSec`, feeds that
    /// watchdog four times as often as it must, except while work takes longer than that time. Elsewhere it does nothing.
    ///
    /// # Errors
    /// Where the environment says something else than systemd's documentation, or a call of the system fails.
    pub fn service() -> Result<Self> {
        let Some(path) = env::var_os("NOTIFY_SOCKET") else { return Ok(Self::default()) };
        let address = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(&path),
        };
        let connect = || -> io::Result<UnixDatagram> {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address?)?;
            Ok(socket)
        };
        let socket = connect().with_context(|| format!("NOTIFY_SOCKET={}", path.display()))?;
        let limit = env::var("WATCHDOG_USEC").ok();
        // Of another process, where this one inherited it.
        let limit = limit.filter(|_| env::var("WATCHDOG_PID").is_ok_and(|pid| pid == std::process::id().to_string()));
        let limit = match limit.as_deref().map(str::parse) {
            None => None,
            Some(Ok(microseconds)) if microseconds > 0 => Some(Duration::from_micros(microseconds)),
            Some(_) => bail!("WATCHDOG_USEC={}: no number of microseconds", limit.unwrap_or_default()),
        };
        Self::feed(socket, limit)
    }

    fn feed(socket: UnixDatagram, limit: Option<Duration>) -> Result<Self> {
        let socket = Arc::new(socket);
        let watch = Self { work: Arc::default(), socket: Some(socket.clone()) };
        let Some(limit) = limit else { return Ok(watch) };
        let work = watch.work.clone();
        let feeding = move || {
            loop {
                if current(&work).is_none_or(|(_, since)| since.elapsed() < limit) {
                    // Where systemd does not listen for a moment the next one is in time.
                    let _ = socket.send(b"WATCHDOG=1");
                }
                thread::sleep(limit / 4);
            }
        };
        thread::Builder::new().name("watchdog".to_owned()).spawn(feeding)?;
        Ok(watch)
    }

    /// Tells the service manager that INIT is over.
    ///
    /// # Errors
    /// Those of the system.
    pub fn ready(&self) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(0), |socket| socket.send(b"READY=1")).map(drop)
    }

    /// Notes that work begins, one thing at a time.
    pub fn work(&self, what: &'static str) -> Working<'_> {
        self.set(Some((what, Instant::now())));
        Working(self)
    }

    fn set(&self, work: Work) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = work;
    }
}

fn current(work: &Mutex<Work>) -> Work {
    *work.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(400);

    /// The next message within twice the limit.
    fn next(manager: &UnixDatagram) -> Option<Vec<u8>> {
        let mut message = [0; 64];
        manager.set_read_timeout(Some(2 * LIMIT)).unwrap();
        manager.recv(&mut message).ok().map(|length| message[..length].to_vec())
    }

    #[test]
    fn the_watchdog_is_fed_until_work_takes_too_long() {
        let (manager, program) = UnixDatagram::pair().unwrap();
        let watch = Watch::feed(program, Some(LIMIT)).unwrap();
        // While nothing is done, and while work is short.
        for _ in 0..4 {
            assert_eq!(next(&manager).unwrap(), b"WATCHDOG=1");
            drop(watch.work("a replay"));
        }
        let hanging = watch.work("a replay");
        thread::sleep(2 * LIMIT);
        // What was sent before the time was over.
        manager.set_nonblocking(true).unwrap();
        while manager.recv(&mut [0; 64]).is_ok() {}
        manager.set_nonblocking(false).unwrap();
        assert_eq!(next(&manager), None);
        drop(hanging);
        assert_eq!(next(&manager).unwrap(), b"WATCHDOG=1");
    }

    #[test]
    fn the_manager_hears_that_init_is_over() {
        let (manager, program) = UnixDatagram::pair().unwrap();
        Watch::feed(program, None).unwrap().ready().unwrap();
        assert_eq!(next(&manager).unwrap(), b"READY=1");
        // Outside of a service there is nobody to tell.
        Watch::default().ready().unwrap();
    }
}
