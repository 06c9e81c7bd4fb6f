//! Tables of what follows one byte.

use super::{Above, Printer, sum};

/// Where tables are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tables {
    /// In device memory, where a look-up takes four instructions.
    InMemory,
    /// In shared memory, where it takes two. `NAME_tables(copy)` calls `copy(to, from, bytes)` for each of them, for a block to copy them
    /// as it likes; both lie at multiples of 16 bytes.
    Shared,
}

/// Most bytes of shared memory that the tables of a program take; those of programs with more are read in device memory.
pub(crate) const SHARED_TABLES: u32 = 2 << 10;

/// A printed table.
pub(super) struct Table {
    name: String,
    pub(super) bytes: usize,
    /// Its definition.
    pub(super) text: String,
}

impl Printer<'_> {
    /// A table of a register's values, indexed by its base, and the expression that reads it; and the byte itself where it holds bytes.
    /// Values are bounded as what reads them bounds them, so that more tables hold bytes.
    pub(super) fn table(
        &self,
        name: &str,
        number: usize,
        place: Tables,
        above: &[Above],
    ) -> Option<(Table, String, Option<String>)> {
        let base = self.bases[number]?;
        let (first, values) = self.bounded_values(number)?;
        let kind = byte_type(&values);
        let words: Vec<u32> = values
            .iter()
            .map(|value| if kind.is_some() { *value as i32 as u32 & 255 } else { value.to_bits() })
            .collect();
        // What has the index 0: the last byte is the value itself, a saturated one is counted from the least.
        let (mut index, mut zero) = (format!("low_byte({})", sum(base, above)), 0);
        if let Some(saturated) = self.saturated_index(base, above, self.bytes(base)) {
            (index, zero) = saturated;
        }
        let words: [u32; 256] = std::array::from_fn(|i| {
            let place = (i as i32 + zero - first) as usize;
            words.get(place & 255).copied().unwrap_or(words[words.len() - 1])
        });
        let list = words.map(|word| word.to_string()).join(",");
        let element = if kind.is_some() { "u8" } else { "u32" };
        let table = format!("{name}_table_{number}");
        let text = match place {
            Tables::InMemory => format!("static __device__ const {element} {table}[256] = {{{list}}};\n"),
            Tables::Shared => format!(
                "static __device__ const {element} __align__(16) {table}_values[256] = {{{list}}};\n\
                 __shared__ {element} __align__(16) {table}[256];\n"
            ),
        };
        let read = format!("(u32){table}[{index}]");
        let table = Table { name: table, bytes: if kind.is_some() { 256 } else { 1024 }, text };
        Some(match kind {
            Some(kind) => (table, format!("value_of_{kind}({read})"), Some(read)),
            None => (table, format!("__uint_as_float({read})"), None),
        })
    }
}

/// `NAME_tables`, as [`Tables::Shared`] says.
pub(super) fn copies(name: &str, tables: &[Table]) -> String {
    let calls = tables.iter().map(|Table { name, bytes, .. }| format!("    copy({name}, {name}_values, {bytes});\n"));
    format!("template <typename Copy> DEVICE void {name}_tables(Copy copy) {{\n{}}}\n", calls.collect::<String>())
}

/// The type of bytes that all these values are, if there is one.
pub(super) fn byte_type(values: &[f32]) -> Option<&'static str> {
    let (low, high) = values.iter().fold((f32::MAX, f32::MIN), |(l, h), &v| (l.min(v), h.max(v)));
    match values.iter().all(|value| value.fract() == 0.0) {
        true if low >= 0.0 && high <= 255.0 => Some("u8"),
        true if low >= -128.0 && high <= 127.0 => Some("i8"),
        _ => None,
    }
}
