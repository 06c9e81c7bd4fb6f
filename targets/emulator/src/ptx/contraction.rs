//! Multiplications and additions that the driver's compiler may contract.
//!
//! PTX leaves `mul` and `add` without a rounding mode to the compiler, which may make one `fma` of them (PTX ISA,
//! "Floating Point Instructions: add"). Such a pair has no defined bits. The compiler was seen to contract where nothing
//! else reads the product; where something does, and across branches, all compared bits were those of two roundings.

use super::{Base, Instruction, Kernel, Operand};
use std::collections::{BTreeMap, BTreeSet};

/// A multiplication and an addition of its product, neither with a rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Line of the multiplication in the PTX.
    pub product: u32,
    /// Line of the addition or subtraction.
    pub sum: u32,
    /// File and line of the addition in the CUDA source, where the text says.
    pub source: Option<(u32, u32)>,
}

impl Kernel {
    /// Returns the additions and subtractions whose bits depend on the driver's compiler, each with one multiplication.
    ///
    /// Both are in one basic block, and nothing else reads the product. A sum with a constant zero rounds as the product
    /// does.
    #[must_use]
    pub fn contractions(&self) -> Vec<Pair> {
        // Line of the multiplication in this block that each register holds the product of.
        let blocks: BTreeSet<u32> = self.labels.iter().copied().collect();
        let mut reads = vec![0u32; self.registers.len()];
        for instruction in &self.instructions {
            instruction
                .operands
                .iter()
                .skip(1)
                .for_each(|operand| each_register(operand, &mut |r| reads[r as usize] += 1));
        }
        let mut products = BTreeMap::new();
        let mut pairs = Vec::new();
        for (number, instruction) in (0..).zip(&self.instructions) {
            if blocks.contains(&number) {
                products.clear();
            }
            let [to, from @ ..] = &*instruction.operands else { continue };
            if is_open(instruction, &["add", "sub"]) && !from.iter().any(is_zero) {
                let product = from.iter().find_map(|operand| {
                    let register = register(operand).filter(|&register| reads[register as usize] == 1)?;
                    products.get(&register)
                });
                pairs.extend(product.map(|&product| Pair {
                    product,
                    sum: instruction.line,
                    source: instruction.source,
                }));
            }
            if let Some(to) = register(to) {
                products.remove(&to);
                if is_open(instruction, &["mul"]) {
                    products.insert(to, instruction.line);
                }
            }
        }
        pairs
    }
}

fn register(operand: &Operand) -> Option<u32> {
    if let Operand::Register(register) = operand { Some(*register) } else { None }
}

/// Calls `each` for the registers in an operand.
fn each_register(operand: &Operand, each: &mut impl FnMut(u32)) {
    match operand {
        Operand::Register(register) | Operand::Not(register) | Operand::Address(Base::Register(register), _) => {
            each(*register);
        }
        Operand::Vector(parts) => parts.iter().for_each(|part| each_register(part, each)),
        Operand::Pair(parts) => parts.iter().for_each(|part| each_register(part, each)),
        _ => {}
    }
}

fn is_zero(operand: &Operand) -> bool {
    match operand {
        Operand::F32(bits) => bits << 1 == 0,
        Operand::F64(bits) => bits << 1 == 0,
        _ => false,
    }
}

/// Whether an instruction is one of these on floats, without a rounding mode.
fn is_open(instruction: &Instruction, names: &[&str]) -> bool {
    let mut parts = instruction.name.split('.');
    names.contains(&parts.next().unwrap_or(""))
        && matches!(instruction.name.rsplit('.').next(), Some("f32" | "f64" | "f16" | "f16x2" | "bf16" | "bf16x2"))
        && !parts.any(|part| matches!(part, "rn" | "rz" | "rm" | "rp"))
}

#[cfg(test)]
mod tests {
    use super::super::Module;

    fn contractions(body: &str) -> Vec<(u32, u32)> {
        let text = format!(
            ".version 8.5\n.target sm_87\n.address_size 64\n.entry k() {{ .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .pred %p;\n{body}ret; }}"
        );
        let module = Module::parse(&text).unwrap();
        module.kernels()[0].contractions().iter().map(|pair| (pair.product - 5, pair.sum - 5)).collect()
    }

    #[test]
    fn a_product_that_is_added_is_found() {
        assert_eq!(contractions("mul.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f1, %f5;\n"), [(0, 1)]);
        assert_eq!(contractions("mul.ftz.f32 %f1, %f2, %f3;\nsub.ftz.f32 %f4, %f5, %f1;\n"), [(0, 1)]);
    }

    #[test]
    fn a_branch_a_zero_another_value_and_another_reader_separate_them() {
        assert!(contractions("mul.f32 %f1, %f2, %f3;\nA:\nadd.f32 %f4, %f1, %f5;\n@%p bra A;\n").is_empty());
        assert!(contractions("mul.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f1, 0f00000000;\n").is_empty());
        assert!(contractions("mul.f32 %f1, %f2, %f3;\nmov.f32 %f1, %f2;\nadd.f32 %f4, %f1, %f5;\n").is_empty());
        assert!(contractions("mul.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f1, %f5;\nneg.f32 %f6, %f1;\n").is_empty());
    }

    #[test]
    fn rounding_modes_fma_and_integers_are_defined() {
        assert!(contractions("mul.rn.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f1, %f5;\n").is_empty());
        assert!(contractions("mul.f32 %f1, %f2, %f3;\nadd.rn.f32 %f4, %f1, %f5;\n").is_empty());
        assert!(contractions("mul.f32 %f1, %f2, %f3;\nfma.rn.f32 %f4, %f1, %f5, %f5;\n").is_empty());
        assert!(contractions("mul.lo.s32 %r1, %r2, %r3;\nadd.s32 %r4, %r1, %r5;\n").is_empty());
    }
}
