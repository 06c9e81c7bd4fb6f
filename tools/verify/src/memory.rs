//! Free device memory, and whether replays take it.

use anyhow::{Result, bail};
use floe_engine::cuda::DriverApi;

/// So often in a row must replays take memory before they are said to: other work on the machine moves the number too, but not
/// always down.
const TIMES: usize = 6;

/// Bytes of device memory that are free. The device's context is current on this thread.
pub fn free(api: &DriverApi) -> Result<u64> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both pointers are valid for the write.
    let result = unsafe { (api.mem_get_info)(&mut free, &mut total) };
    if result == 0 { Ok(free as u64) } else { bail!("cuMemGetInfo failed ({result})") }
}

/// Free memory before `replays` and after them, and again after more of them as long as there is less each time. They are told
/// how often they were called before.
pub fn watched(
    mut free: impl FnMut() -> Result<u64>,
    mut replays: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<u64>> {
    let mut readings = Vec::with_capacity(TIMES + 1);
    readings.push(free()?);
    for time in 0..TIMES {
        replays(time)?;
        readings.push(free()?);
        if readings[time + 1] >= readings[time] {
            break;
        }
    }
    Ok(readings)
}

/// What is wrong with such readings: a session that allocates while it replays takes memory every time.
pub fn failure(readings: &[u64]) -> Option<String> {
    let falls = readings.windows(2).all(|pair| pair[1] < pair[0]);
    (readings.len() > TIMES && falls)
        .then(|| format!("free device memory fell with every run of replays: {readings:?} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong where the readings are these, the last of which goes on; and how often replays ran.
    fn judged(readings: &[u64]) -> (Option<String>, usize) {
        let (mut next, mut runs) = (readings.iter().copied(), 0);
        let last = readings[readings.len() - 1];
        let read = watched(
            || Ok(next.next().unwrap_or(last)),
            |time| {
                assert_eq!(time, runs);
                runs += 1;
                Ok(())
            },
        );
        (failure(&read.unwrap()), runs)
    }

    #[test]
    fn a_leak_goes_on_and_noise_does_not() {
        const FREE: u64 = 84_000_000_000;
        let readings = |changes: &[i64]| -> Vec<u64> {
            let sums = changes.iter().scan(FREE, |free, &change| {
                *free = free.strict_add_signed(change << 10);
                Some(*free)
            });
            [FREE].into_iter().chain(sums).collect()
        };
        // Kernels on another GPU of the machine moved the number by 64 to 192 KiB, up and down; a program that starts keeps some.
        for (changes, runs) in [
            (&[0][..], 1),
            (&[64], 1),
            (&[-64, 0], 2),
            (&[-192, 64, -64, -64, -64, -64, -64], 2),
            (&[-64, -64, -64, -64, -64, 192], 6),
            (&[-400_000, 0], 2),
        ] {
            assert_eq!(judged(&readings(changes)), (None, runs), "{changes:?}");
        }
        // 64 bytes a replay, and a page of 2 MiB; in front of noise that is smaller than the leak.
        for changes in [&[-64; 6], &[-2048; 6], &[-2048, -2112, -1856, -2048, -2240, -1984]] {
            let (failure, runs) = judged(&readings(changes));
            assert!(failure.is_some_and(|said| said.contains("84000000000, ")), "{changes:?}");
            assert_eq!(runs, TIMES);
        }
    }
}
