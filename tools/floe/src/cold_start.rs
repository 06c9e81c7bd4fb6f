//! Where the time goes between the start of the process and the first result.

use floe_engine::cuda::Stage;
use std::{
    cell::RefCell,
    fmt::Write,
    fs, thread,
    time::{Duration, Instant},
};

thread_local! {
    /// What began when, on this thread.
    static MARKS: RefCell<Vec<(&'static str, Instant)>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a part begins, and the one before it ends.
pub fn mark(part: &'static str) {
    MARKS.with_borrow_mut(|marks| marks.push((part, Instant::now())));
}

/// As [`mark`], for the stages of INIT.
pub fn mark_stage(stage: Stage) {
    mark(match stage {
        Stage::Modules => "load modules",
        Stage::Memory => "allocate and upload",
        Stage::Graph => "build graph",
        Stage::WarmUp => "warm-up replay",
        Stage::Ready => "inputs",
    });
}

/// The part that is the driver's own: loading its library, `cuInit`, the context.
pub const DRIVER: &str = "driver and context";

/// Parts in order, and the microseconds that each took.
#[derive(Clone, Debug, PartialEq)]
pub struct ColdStart {
    /// Name and microseconds.
    pub parts: Vec<(&'static str, f64)>,
}

impl ColdStart {
    /// From the first mark until now, and what the process took before: `before_main`.
    pub fn until_now(before_main: Option<Duration>) -> Self {
        let end = Instant::now();
        let mut parts: Vec<(&'static str, f64)> = Vec::new();
        if let Some(before) = before_main {
            parts.push(("before main", before.as_secs_f64() * 1e6));
        }
        MARKS.with_borrow(|marks| {
            let ends = marks.iter().skip(1).map(|(_, time)| *time).chain([end]);
            parts
                .extend(marks.iter().zip(ends).map(|((part, start), end)| (*part, (end - *start).as_secs_f64() * 1e6)));
        });
        Self { parts }
    }

    /// Microseconds of all parts, and of all but the driver's.
    pub fn totals(&self) -> (f64, f64) {
        let sum = |parts: &mut dyn Iterator<Item = &(&str, f64)>| parts.map(|(_, time)| time).sum();
        (sum(&mut self.parts.iter()), sum(&mut self.parts.iter().filter(|(part, _)| *part != DRIVER)))
    }

    /// A line for each part.
    pub fn text(&self) -> String {
        let (all, own) = self.totals();
        let mut text = String::from("from the start of the process to the first result, ms:\n");
        let mut line = |part: &str, time: f64| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {part:<20} {:>9.3}", time / 1e3);
        };
        self.parts.iter().for_each(|(part, time)| line(part, *time));
        line("all", all);
        line("all but the driver's", own);
        text
    }

    /// Microseconds by part.
    pub fn json(&self) -> serde_json::Value {
        let (all, own) = self.totals();
        let parts: Vec<_> =
            self.parts.iter().map(|(part, time)| serde_json::json!({"part": part, "us": time})).collect();
        serde_json::json!({"parts": parts, "all_us": all, "without_driver_us": own})
    }
}

/// How long this thread has been running or ready to run, by the system's scheduler: in `main`, the time since the process
/// was made. `None` where the system does not tell.
pub fn time_since_process_start() -> Option<Duration> {
    let read = || {
        let text = fs::read_to_string("/proc/self/schedstat").ok()?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        // Some sandboxes count nothing.
        (ran > 0).then(|| Duration::from_nanos(ran + waited))
    };
    // The scheduler counts at its next turn: before the first, a process has not run at all.
    read().or_else(|| {
        thread::yield_now();
        read()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_gaps() {
        mark("read");
        mark(DRIVER);
        mark_stage(Stage::Graph);
        let cold = ColdStart::until_now(Some(Duration::from_micros(5)));
        let names: Vec<_> = cold.parts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["before main", "read", DRIVER, "build graph"]);
        let (all, own) = cold.totals();
        assert!((all - own - cold.parts[2].1).abs() < 1e-6 && own >= 5.0);
        assert!(cold.text().contains("all but the driver's"));
        assert_eq!(cold.json()["parts"][0]["us"], 5.0);
    }
}
