//! Power of a board by its own sensors: the INA3221 monitors of Jetsons, read from sysfs.
//!
//! A monitor has three channels, each the supply of some part of the board: `VDD_IN` is all of it. JetPack 5 and later have the
//! kernel's hwmon driver, which gives millivolts and milliamperes:
//! `bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3/{in1_label,in1_input,curr1_input}`. JetPack 4 has NVIDIA's own, which gives
//! milliwatts: `bus/i2c/drivers/ina3221x/6-0040/iio:device0/{rail_name_0,in_power0_input}`.

use anyhow::Result;
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// From one sample to the next. A monitor converts all its channels in a few milliseconds, and reading one takes about one.
const PERIOD: Duration = Duration::from_millis(20);
/// Channels of a monitor.
const CHANNELS: u32 = 3;

/// A supply that a monitor watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rail {
    /// Name on the board.
    pub name: String,
    source: Source,
}

/// Where the power is read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Milliwatts(PathBuf),
    Product { millivolts: PathBuf, milliamperes: PathBuf },
}

/// What a rail took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Power {
    /// Name on the board.
    pub rail: String,
    /// Mean of the samples.
    pub watts: f64,
    /// Samples.
    pub samples: usize,
}

impl Power {
    /// Energy in joules over a time in microseconds.
    pub fn joules(&self, microseconds: f64) -> f64 {
        self.watts * microseconds / 1e6
    }
}

impl Rail {
    /// All rails of the board, by name; none where there is no monitor. `sysfs` is usually `/sys`.
    pub fn find(sysfs: &Path) -> Vec<Self> {
        let drivers = sysfs.join("bus/i2c/drivers");
        let mut rails = Vec::new();
        for device in folders(&drivers.join("ina3221")) {
            for monitor in folders(&device.join("hwmon")) {
                rails.extend((1..=CHANNELS).filter_map(|channel| {
                    let file = |name: String| monitor.join(name);
                    let (millivolts, milliamperes) =
                        (file(format!("in{channel}_input")), file(format!("curr{channel}_input")));
                    Self::named(&file(format!("in{channel}_label")), Source::Product { millivolts, milliamperes })
                }));
            }
        }
        for device in folders(&drivers.join("ina3221x")) {
            for monitor in folders(&device) {
                rails.extend((0..CHANNELS).filter_map(|channel| {
                    let power = monitor.join(format!("in_power{channel}_input"));
                    Self::named(&monitor.join(format!("rail_name_{channel}")), Source::Milliwatts(power))
                }));
            }
        }
        rails.sort_by(|a, b| a.name.cmp(&b.name));
        rails
    }

    /// A channel that is in use: it has a name and can be read.
    fn named(name: &Path, source: Source) -> Option<Self> {
        let name = fs::read_to_string(name).ok()?.trim().to_owned();
        let rail = Self { name, source };
        // NVIDIA's device trees call channels without a supply so.
        (!rail.name.is_empty() && rail.name != "NC" && rail.watts().is_some()).then_some(rail)
    }

    /// Power now; `None` where the monitor does not answer.
    pub fn watts(&self) -> Option<f64> {
        let read = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<f64>().ok();
        match &self.source {
            Source::Milliwatts(path) => Some(read(path)? / 1e3),
            Source::Product { millivolts, milliamperes } => Some(read(millivolts)? * read(milliamperes)? / 1e6),
        }
    }
}

/// Folders in a folder, links to folders included, by name; none where it cannot be read.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Samples rails on a thread of its own.
#[derive(Debug)]
pub struct Meter {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Power>>,
}

impl Meter {
    /// Starts to sample.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(rails: &[Rail]) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let rails = rails.to_vec();
        let sample = move || {
            let mut sums = vec![(0.0, 0usize); rails.len()];
            loop {
                for (rail, (sum, samples)) in rails.iter().zip(&mut sums) {
                    if let Some(watts) = rail.watts() {
                        *sum += watts;
                        *samples += 1;
                    }
                }
                if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            let all = rails.into_iter().zip(sums).filter(|(_, (_, samples))| *samples > 0);
            all.map(|(rail, (sum, samples))| Power { rail: rail.name, watts: sum / samples as f64, samples }).collect()
        };
        let thread = thread::Builder::new().name("power".to_owned()).spawn(sample)?;
        Ok(Self { stop, thread })
    }

    /// Ends sampling; what each rail took since the start, those left out that never answered.
    pub fn finish(self) -> Vec<Power> {
        // It listens until it is told.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files as a board has them.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("bus/i2c/drivers").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    fn watts(root: &Path) -> Vec<(String, f64)> {
        Rail::find(root).into_iter().map(|rail| (rail.name.clone(), rail.watts().unwrap())).collect()
    }

    #[test]
    fn an_orin_has_volts_and_amperes() {
        let root = tree(&[
            ("ina3221/1-0040/hwmon/hwmon3/in1_label", "VDD_IN"),
            ("ina3221/1-0040/hwmon/hwmon3/in1_input", "5080"),
            ("ina3221/1-0040/hwmon/hwmon3/curr1_input", "1200"),
            ("ina3221/1-0040/hwmon/hwmon3/in2_label", "VDD_CPU_GPU_CV"),
            ("ina3221/1-0040/hwmon/hwmon3/in2_input", "5000"),
            ("ina3221/1-0040/hwmon/hwmon3/curr2_input", "200"),
            ("ina3221/1-0040/hwmon/hwmon3/in3_label", "VDD_SOC"),
            ("ina3221/1-0040/hwmon/hwmon3/in3_input", "error"),
            ("ina3221/1-0040/hwmon/hwmon3/curr3_input", "1"),
            // The sum of the shunts is no rail.
            ("ina3221/1-0040/hwmon/hwmon3/in7_label", "sum of shunt voltages"),
            ("ina3221/1-0040/hwmon/hwmon3/in7_input", "7"),
            ("ina3221/bind", ""),
        ]);
        assert_eq!(watts(root.path()), [("VDD_CPU_GPU_CV".to_owned(), 1.0), ("VDD_IN".to_owned(), 6.096)]);
    }

    #[test]
    fn an_earlier_board_has_watts() {
        let root = tree(&[
            ("ina3221x/6-0040/iio:device0/rail_name_0", "POM_5V_IN"),
            ("ina3221x/6-0040/iio:device0/in_power0_input", "2345"),
            ("ina3221x/6-0040/iio:device0/rail_name_1", "NC"),
            ("ina3221x/6-0040/iio:device0/in_power1_input", "1"),
        ]);
        assert_eq!(watts(root.path()), [("POM_5V_IN".to_owned(), 2.345)]);
        assert!(Rail::find(&root.path().join("nowhere")).is_empty());
    }

    #[test]
    fn the_mean_is_of_what_was_sampled() {
        let root = tree(&[
            ("ina3221x/6-0040/iio:device0/rail_name_0", "VDD_IN"),
            ("ina3221x/6-0040/iio:device0/in_power0_input", "1000"),
        ]);
        let rails = Rail::find(root.path());
        let meter = Meter::start(&rails).unwrap();
        thread::sleep(5 * PERIOD);
        fs::write(root.path().join("bus/i2c/drivers/ina3221x/6-0040/iio:device0/in_power0_input"), "3000").unwrap();
        thread::sleep(5 * PERIOD);
        let power = meter.finish();
        assert_eq!((power.len(), power[0].rail.as_str()), (1, "VDD_IN"));
        assert!(power[0].samples >= 2 && (1.0..3.0).contains(&power[0].watts), "{power:?}");
        assert!(Meter::start(&[]).unwrap().finish().is_empty());
    }
}
