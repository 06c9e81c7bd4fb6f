//! Which instructions of a kernel were never executed, and which branches went one way only.

use super::findings::Place;
use crate::machine::{Counts, Program};

/// What was executed of one kernel.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    executed: Vec<u64>,
    jumped: Vec<bool>,
    fell: Vec<bool>,
}

/// What is left of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncovered {
    /// Instructions of the kernel.
    pub instructions: usize,
    /// Instructions that were never executed.
    pub never: Vec<Place>,
    /// Conditional branches.
    pub branches: usize,
    /// Those that went both ways.
    pub both: usize,
    /// Branches that were executed and never jumped, or always did.
    pub one_way: Vec<(Place, &'static str)>,
}

impl Coverage {
    /// Adds what a launch executed.
    pub fn add(&mut self, program: &Program, counts: &Counts) {
        let length = program.len();
        self.executed.resize(length, 0);
        self.jumped.resize(length, false);
        self.fell.resize(length, false);
        for (total, &executed) in self.executed.iter_mut().zip(&counts.executed) {
            *total += executed;
        }
        for (number, taken) in counts.taken.iter().enumerate().take(length) {
            self.jumped[number] |= taken.jumped;
            self.fell[number] |= taken.fell_through;
        }
    }

    /// What has not been executed.
    pub fn uncovered(&self, program: &Program) -> Uncovered {
        let (mut never, mut one_way, mut branches, mut both) = (Vec::new(), Vec::new(), 0, 0);
        for number in 0..program.len() as u32 {
            let executed = self.executed.get(number as usize).is_some_and(|&count| count > 0);
            let branch = program.is_branch(number);
            branches += usize::from(branch);
            if !executed {
                never.push(Place::of(program, number));
            } else if branch {
                match (self.jumped[number as usize], self.fell[number as usize]) {
                    (true, false) => one_way.push((Place::of(program, number), "always jumped")),
                    (false, true) => one_way.push((Place::of(program, number), "never jumped")),
                    (true, true) => both += 1,
                    (false, false) => {}
                }
            }
        }
        Uncovered { instructions: program.len(), never, branches, both, one_way }
    }
}
