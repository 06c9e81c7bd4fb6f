//! What a kernel needs of a multiprocessor, from ptxas' report.

use serde::{Deserialize, Serialize};

/// Resources of one kernel as `--ptxas-options=-v` reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// 32-bit registers of each thread.
    pub registers: u32,
    /// Bytes of stack of each thread.
    pub stack: u32,
    /// Bytes stored to local memory for lack of registers, each thread.
    pub spill_stores: u32,
    /// Bytes loaded back, each thread.
    pub spill_loads: u32,
    /// Bytes of static shared memory of each block.
    pub shared: u32,
    /// Bytes of the constant bank that holds the parameters.
    pub constants: u32,
}

impl Resources {
    /// Reads the numbers for the kernel `entry` out of a log; `None` where it does not mention it.
    pub fn parse(log: &str, entry: &str) -> Option<Self> {
        let begin = log.find(&format!("Compiling entry function '{entry}'"))?;
        let section = &log[begin..];
        let end = section[1..].find("Compiling entry function").map_or(section.len(), |next| next + 1);
        let section = &section[..end];
        let number = |unit: &str| {
            let digits = section[..section.find(unit)?].trim_end();
            digits[digits.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |last| last + 1)..].parse().ok()
        };
        Some(Self {
            registers: number(" registers")?,
            stack: number(" bytes stack frame").unwrap_or(0),
            spill_stores: number(" bytes spill stores").unwrap_or(0),
            spill_loads: number(" bytes spill loads").unwrap_or(0),
            shared: number(" bytes smem").unwrap_or(0),
            constants: number(" bytes cmem[0]").unwrap_or(0),
        })
    }

    /// Bytes of a thread's stack, which is in local memory, that hold no spilled registers: arrays with indices that the compiler does not
    /// know.
    pub fn arrays(&self) -> u32 {
        let spilled = self.spill_stores.max(self.spill_loads);
        self.stack.saturating_sub(spilled.next_multiple_of(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_the_named_kernel() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'first' for 'sm_87'\n\
                   ptxas info    : Function properties for first\n    \
                   16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
                   ptxas info    : Used 79 registers, used 1 barriers, 16384 bytes smem, 376 bytes cmem[0]\n\
                   ptxas info    : Compiling entry function 'second' for 'sm_87'\n\
                   ptxas info    : Used 8 registers, 352 bytes cmem[0]\n";
        let first = Resources::parse(log, "first").unwrap();
        let expected =
            Resources { registers: 79, stack: 16, spill_stores: 8, spill_loads: 12, shared: 16384, constants: 376 };
        assert_eq!(first, expected);
        assert_eq!(first.arrays(), 0);
        assert_eq!(Resources { stack: 272, ..first }.arrays(), 256);
        let second = Resources::parse(log, "second").unwrap();
        assert_eq!((second.registers, second.shared, second.stack), (8, 0, 0));
        assert_eq!(Resources::parse(log, "third"), None);
    }
}
