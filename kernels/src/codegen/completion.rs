//! The steps behind a network: guards, which watch float results for NaN and infinity, and the signal, which tells the host
//! that a replay has finished. They write host memory that the engine maps; its layout is the plan format's.

use super::{Launch, PRELUDE, element_type};
use crate::DType;

/// Threads of a guard's block.
const THREADS: u64 = 256;
/// Vectors of 16 bytes that a guard's thread looks at.
const VECTORS: u64 = 4;

/// A float tensor that a guard watches: row-major, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Number of its binding.
    pub binding: usize,
    /// Its type: a float.
    pub dtype: DType,
    /// Its elements, not 0.
    pub elements: u64,
}

/// The signal. Pointers: the counter (`u32`, device memory), the report (host memory). Adds 1 to the counter, leaving out 0,
/// and stores the sum at the start of the report, with release semantics for the whole system.
pub fn signal() -> Launch {
    Launch::new(format!("{PRELUDE}\n{}", include_str!("signal.cu")), "signal", 1, 1, Vec::new())
}

/// A guard. Pointers: the counter, the report, the tensors in order. Where one holds a NaN or an infinity, it writes the
/// number of the current replay (the counter plus 1) into the report: `u32` number `first_word` plus that of the binding.
pub fn guard(watched: &[Watched], first_word: u64) -> Launch {
    let mut blocks = 0;
    let mut parameters = String::new();
    let mut watch = String::new();
    for (number, Watched { binding, dtype, elements }) in watched.iter().enumerate() {
        let of_this = elements.div_ceil(16 / dtype.size() as u64 * VECTORS * THREADS);
        parameters += &format!(", const u8* tensor{number}");
        watch += &format!(
            "{}if (block < {}u) {{ binding = {binding}u; found = any_non_finite<{}>(tensor{number}, {elements}ull, block - {blocks}u); }}",
            if number == 0 { "" } else { " \\\n    else " },
            blocks + of_this,
            element_type(*dtype),
        );
        blocks += of_this;
    }
    let defines = format!(
        "#define THREADS {THREADS}u\n#define VECTORS {VECTORS}u\n#define REPORT_GUARD {first_word}u\n#define PARAMETERS \
         {parameters}\n#define WATCH {watch}\n"
    );
    // A binding has fewer than 2^45 bytes, so its blocks fit; the plan's check refuses more than 2^31.
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let source = format!("{PRELUDE}\n{defines}{}", include_str!("guard.cu"));
    Launch::new(source, "guard", blocks, THREADS as u32, Vec::new())
}
