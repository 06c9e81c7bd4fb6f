//! Products of matrices (`mma.sync`) and the loads that feed them (`ldmatrix`).
//!
//! Of floats, [`sums`] says how products are added. Of integers sums are exact and wrap.

use super::lanes::{Registers, Slot, every, vectorised};
use super::reader::{Address, Reader, Result};
use super::sums::{self, Factor, Factors, Sums};
use crate::ptx::Type;

#[derive(Clone, Debug)]
pub(super) struct Multiply {
    kind: Kind,
    /// How floats are added.
    sums: Sums,
    /// Registers of `a` and `b`: 4 and 2, or 2 and 1.
    registers: usize,
    /// Whether `c` and `d` are pairs of f16.
    half_sums: bool,
    saturate: bool,
    d: [Slot; 4],
    a: [Slot; 4],
    b: [Slot; 2],
    c: [Slot; 4],
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Floats(Factor),
    /// Signedness of `a` and of `b`.
    Bytes(bool, bool),
}

#[derive(Clone, Debug)]
pub(super) struct Load {
    pub destinations: [Slot; 4],
    pub count: u32,
    pub transposed: bool,
    pub address: Address,
}

/// Decodes the instruction if it is `mma`.
pub(super) fn decode_multiply(reader: &mut Reader<'_>) -> Result<Option<Multiply>> {
    if reader.opcode != "mma" {
        return Ok(None);
    }
    if !(reader.takes("sync") && reader.takes("aligned") && reader.takes("row") && reader.takes("col")) {
        return Err("this form".to_owned());
    }
    let saturate = reader.takes("satfinite");
    let depths = [("m16n8k4", 4), ("m16n8k8", 8), ("m16n8k16", 16), ("m16n8k32", 32)];
    let depth = reader.choice(&depths).ok_or("this shape")?;
    let (d, a, b, c) = (reader.r#type()?, reader.r#type()?, reader.r#type()?, reader.r#type()?);
    let kind = match (a, b) {
        (Type::F16, Type::F16) => Kind::Floats(Factor::F16),
        (Type::Bf16, Type::Bf16) => Kind::Floats(Factor::Bf16),
        (Type::Tf32, Type::Tf32) => Kind::Floats(Factor::Tf32),
        (Type::S8 | Type::U8, Type::S8 | Type::U8) => Kind::Bytes(a.is_signed(), b.is_signed()),
        _ => return Err(format!("types {a:?} and {b:?}")),
    };
    // Four threads hold a row of `a`: of `depth / 4` elements each, in registers of 4 bytes.
    let registers = (depth / 4 * a.bytes() / 4) as usize;
    if !matches!(registers, 1 | 2) {
        return Err("this shape".to_owned());
    }
    let half_sums = match (kind, d, c) {
        (Kind::Floats(Factor::F16), Type::F16, Type::F16) => true,
        (Kind::Floats(_), Type::F32, Type::F32) | (Kind::Bytes(..), Type::S32, Type::S32) => false,
        _ => return Err(format!("sums of type {d:?} and {c:?}")),
    };
    let sums = if half_sums { 2 } else { 4 };
    let (mut slots, mut sources) = ([Slot::SINK; 4], [[Slot::SINK; 4]; 3]);
    let operands = reader.operands();
    let counts = [sums, 2 * registers, registers, sums];
    if operands.len() != 4 || !(0..4).all(|i| reader.elements(&operands[i]).len() == counts[i]) {
        return Err("operands of another number of registers".to_owned());
    }
    for (slot, operand) in slots.iter_mut().zip(reader.elements(&operands[0])) {
        *slot = reader.destination(operand, 4)?;
    }
    for (matrix, operand) in sources.iter_mut().zip(&operands[1..]) {
        for (slot, element) in matrix.iter_mut().zip(reader.elements(operand)) {
            // A number is one of the sums; a register is one whatever its type.
            let r#type = if a.bytes() == 1 || half_sums { Type::B32 } else { Type::F32 };
            *slot = reader.value(element, r#type)?;
        }
    }
    let [a, b, c] = sources;
    let how = Sums::of(reader.capability);
    Ok(Some(Multiply { kind, sums: how, registers, half_sums, saturate, d: slots, a, b: [b[0], b[1]], c }))
}

/// Decodes the instruction if it is `ldmatrix`.
pub(super) fn decode_load(reader: &mut Reader<'_>) -> Result<Option<Load>> {
    if reader.opcode != "ldmatrix" {
        return Ok(None);
    }
    let usual = reader.takes("sync") && reader.takes("aligned") && reader.takes("m8n8");
    if !usual || !(reader.takes("shared") || reader.takes("shared::cta")) || !reader.takes("b16") {
        return Err("this form".to_owned());
    }
    let count = reader.choice(&[("x1", 1), ("x2", 2), ("x4", 4)]).ok_or("no number of matrices")?;
    let transposed = reader.takes("trans");
    let operands = reader.operands();
    if operands.len() != 2 || reader.elements(&operands[0]).len() != count as usize {
        return Err("operands of another number".to_owned());
    }
    let mut destinations = [Slot::SINK; 4];
    for (slot, operand) in destinations.iter_mut().zip(reader.elements(&operands[0])) {
        *slot = reader.destination(operand, 4)?;
    }
    Ok(Some(Load { destinations, count, transposed, address: reader.address(&operands[1])? }))
}

impl Load {
    /// Spreads the rows that were read: `rows[8 * m + i]` is row `i` of matrix `m`.
    pub fn spread(&self, rows: &[[u32; 4]; 32], r: &mut Registers<'_>) {
        for (matrix, slot) in self.destinations.iter().take(self.count as usize).enumerate() {
            let rows = &rows[8 * matrix..8 * matrix + 8];
            let element = |row: usize, column: usize| rows[row][column / 2] >> (16 * (column % 2)) & 0xffff;
            let result = std::array::from_fn(|lane| {
                let (group, thread) = (lane / 4, lane % 4);
                if self.transposed {
                    element(2 * thread, group) | element(2 * thread + 1, group) << 16
                } else {
                    rows[group][thread]
                }
            });
            r.set_row(*slot, &result, u32::MAX);
        }
    }
}

vectorised! {
    /// Multiplies: all 32 lanes take part.
    pub(super) fn multiply(op: &Multiply, r: &mut Registers<'_>) {
        match op.kind {
            Kind::Floats(factor) => {
                let (mut a, mut b) = ([[0; 16]; 16], [[0; 8]; 16]);
                // A register has one element, or two beside each other in k.
                let packed = if factor == Factor::Tf32 { 1 } else { 2 };
                for half in 0..op.registers {
                    let (upper, lower, columns) = (r.row(op.a[2 * half]), r.row(op.a[2 * half + 1]), r.row(op.b[half]));
                    for lane in 0..32 {
                        let (group, k) = (lane / 4, packed * (lane % 4 + 4 * half));
                        for i in 0..packed {
                            let element = |row: &[u32; 32]| if packed == 1 { row[lane] } else { row[lane] >> (16 * i) & 0xffff };
                            a[group][k + i] = element(upper);
                            a[group + 8][k + i] = element(lower);
                            b[k + i][group] = element(columns);
                        }
                    }
                }
                let factors = Factors { factor, depth: 4 * packed * op.registers, a: &a, b: &b };
                floats(op.sums, &factors, (&op.d, &op.c, op.half_sums), r);
            }
            Kind::Bytes(signed_a, signed_b) => bytes(op, r, signed_a, signed_b),
        }
    }
}

/// Adds products to what the registers `c` hold of 16 rows and 8 columns, into `d`.
#[inline(always)]
pub(super) fn floats(
    how: Sums,
    factors: &Factors<'_>,
    (d, c, half_sums): (&[Slot; 4], &[Slot; 4], bool),
    r: &mut Registers<'_>,
) {
    let mut sums = [[0_u32; 8]; 16];
    let place = |half: usize, lane: usize| (lane / 4 + 8 * half, 2 * (lane % 4));
    for half in 0..2 {
        let (even, odd) = if half_sums {
            let row = r.row(c[half]);
            (row.map(|word| word & 0xffff), row.map(|word| word >> 16))
        } else {
            (*r.row(c[2 * half]), *r.row(c[2 * half + 1]))
        };
        for lane in 0..32 {
            let (row, column) = place(half, lane);
            (sums[row][column], sums[row][column + 1]) = (even[lane], odd[lane]);
        }
    }
    sums::add(how, factors, half_sums, &mut sums);
    for half in 0..2 {
        let part = |i: usize| -> [u32; 32] {
            every(|lane| {
                let (row, column) = place(half, lane);
                sums[row][column + i]
            })
        };
        let (even, odd) = (part(0), part(1));
        if half_sums {
            r.set_row(d[half], &every(|lane| even[lane] | odd[lane] << 16), u32::MAX);
        } else {
            r.set_row(d[2 * half], &even, u32::MAX);
            r.set_row(d[2 * half + 1], &odd, u32::MAX);
        }
    }
}

#[inline(always)]
fn bytes(op: &Multiply, r: &mut Registers<'_>, signed_a: bool, signed_b: bool) {
    let (mut a, mut b) = ([[0_i32; 32]; 16], [[0_i32; 8]; 32]);
    let byte = |word: u32, i: usize, signed: bool| {
        let byte = (word >> (8 * i)) as u8;
        if signed { i32::from(byte as i8) } else { i32::from(byte) }
    };
    for half in 0..op.registers {
        let (upper, lower, columns) = (r.row(op.a[2 * half]), r.row(op.a[2 * half + 1]), r.row(op.b[half]));
        for lane in 0..32 {
            for i in 0..4 {
                let (group, k) = (lane / 4, 4 * (lane % 4) + i + 16 * half);
                a[group][k] = byte(upper[lane], i, signed_a);
                a[group + 8][k] = byte(lower[lane], i, signed_a);
                b[k][group] = byte(columns[lane], i, signed_b);
            }
        }
    }
    let mut sums = [[0_i32; 8]; 16];
    for (row, sums) in a.iter().zip(&mut sums) {
        for k in 0..16 * op.registers {
            for n in 0..8 {
                sums[n] += row[k] * b[k][n];
            }
        }
    }
    let c: [[i32; 32]; 4] = op.c.map(|slot| r.get(slot));
    for (i, slot) in op.d.iter().enumerate() {
        let values: [i32; 32] = every(|lane| {
            let product = sums[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
            if op.saturate { c[i][lane].saturating_add(product) } else { c[i][lane].wrapping_add(product) }
        });
        r.set(*slot, &values, u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Heap, program, start};

    /// Fills 16 × k and k × 8 matrices with small integers, multiplies them on the machine with fragments spread as the
    /// PTX ISA draws them, and compares with the plain product.
    fn check(k: usize, types: &str, element: impl Fn(i32) -> u32, width: usize, float: bool) {
        let (per, registers) = (4 / width, k * width / 16);
        let a = |row: usize, column: usize| (row * 7 + column * 3) as i32 % 11 - 5;
        let b = |row: usize, column: usize| (row * 5 + column * 13) as i32 % 9 - 4;
        let mut words = vec![0_u32; 32 * 16];
        let pack =
            |value: &dyn Fn(usize) -> i32| (0..per).fold(0, |word, i| word | element(value(i)) << (8 * width * i));
        for lane in 0..32 {
            let (group, thread) = (lane / 4, lane % 4);
            for half in 0..registers {
                let first = thread * per + 4 * per * half;
                words[16 * lane + 2 * half] = pack(&|i| a(group, first + i));
                words[16 * lane + 2 * half + 1] = pack(&|i| a(group + 8, first + i));
                words[16 * lane + 4 + half] = pack(&|i| b(first + i, group));
            }
            for i in 0..4 {
                words[16 * lane + 8 + i] = if float { (i as f32).to_bits() } else { i as u32 };
            }
        }
        let list = |names: &[u32]| names.iter().map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ");
        let (na, nb): (Vec<u32>, Vec<u32>) =
            ((10..10 + 2 * registers as u32).collect(), (14..14 + registers as u32).collect());
        let body = format!(
            "ld.param.u64 %d0, [in]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 64; add.s64 %d0, %d0, %d1;\n\
             ld.global.v2.u32 {{%r10, %r11}}, [%d0]; ld.global.v2.u32 {{%r12, %r13}}, [%d0+8]; ld.global.v2.u32 {{%r14, %r15}}, [%d0+16];\n\
             ld.global.v2.u32 {{%r18, %r19}}, [%d0+32]; ld.global.v2.u32 {{%r20, %r21}}, [%d0+40];\n\
             mma.sync.aligned.m16n8k{k}.row.col.{types} {{%r22, %r23, %r24, %r25}}, {{{}}}, {{{}}}, {{%r18, %r19, %r20, %r21}};\n\
             st.global.v2.u32 [%d0+48], {{%r22, %r23}}; st.global.v2.u32 [%d0+56], {{%r24, %r25}};",
            list(&na),
            list(&nb)
        );
        let longs: Vec<u64> = words.chunks(2).map(|two| u64::from(two[0]) | u64::from(two[1]) << 32).collect();
        let heap = Heap::new(&longs);
        start(&program(&body), &heap, 1, 32, 0).unwrap();
        let result = heap.words();
        for lane in 0..32 {
            for i in 0..4 {
                let (row, column) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
                let expected = i as i32 + (0..k).map(|j| a(row, j) * b(j, column)).sum::<i32>();
                let word = (result[8 * lane + 6 + i / 2] >> (32 * (i % 2))) as u32;
                let value = if float { f32::from_bits(word) as i32 } else { word as i32 };
                assert_eq!(value, expected, "{types}: lane {lane}, element {i}");
            }
        }
    }

    #[test]
    fn fragments_lie_where_the_isa_draws_them() {
        let half = |x: i32| u32::from(half::f16::from_f32(x as f32).to_bits());
        let brain = |x: i32| (x as f32).to_bits() >> 16;
        check(16, "f32.f16.f16.f32", half, 2, true);
        check(8, "f32.f16.f16.f32", half, 2, true);
        check(16, "f32.bf16.bf16.f32", brain, 2, true);
        check(8, "f32.tf32.tf32.f32", |x| (x as f32).to_bits(), 4, true);
        check(4, "f32.tf32.tf32.f32", |x| (x as f32).to_bits(), 4, true);
        check(32, "s32.s8.s8.s32", |x| u32::from(x as u8), 1, false);
        check(16, "s32.s8.s8.s32", |x| u32::from(x as u8), 1, false);
    }

    #[test]
    fn rows_are_loaded_straight_and_transposed() {
        // Element (row, column) of matrix m is 64 m + 8 row + column.
        let load = |form: &str| {
            let body = format!(
                "ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mul.lo.s32 %r1, %r0, 16; mul.lo.s32 %r2, %r0, 8; mov.u32 %r3, 0;\n\
                 FILL: add.s32 %r4, %r2, %r3; cvt.u16.u32 %h0, %r4; shl.b32 %r5, %r4, 1; st.shared.u16 [%r5], %h0;\n\
                 add.s32 %r3, %r3, 1; setp.lt.s32 %p0, %r3, 8; @%p0 bra FILL; bar.sync 0;\n\
                 ldmatrix.sync.aligned.m8n8.x4.{form}shared.b16 {{%r6, %r7, %r8, %r9}}, [%r1];\n\
                 mul.wide.u32 %d1, %r0, 8; add.s64 %d0, %d0, %d1; st.global.u32 [%d0], %r6; st.global.u32 [%d0+4], %r9;"
            );
            let heap = Heap::new(&[0; 32]);
            start(&program(&body), &heap, 1, 32, 512).unwrap();
            heap.words()
        };
        for (lane, word) in load("").into_iter().enumerate() {
            let element = |m: u64| 64 * m + 8 * (lane as u64 / 4) + 2 * (lane as u64 % 4);
            let pair = |m| element(m) | (element(m) + 1) << 16;
            assert_eq!(word, pair(0) | pair(3) << 32);
        }
        for (lane, word) in load("trans.").into_iter().enumerate() {
            let element = |m: u64| 64 * m + 8 * 2 * (lane as u64 % 4) + lane as u64 / 4;
            let pair = |m| element(m) | (element(m) + 8) << 16;
            assert_eq!(word, pair(0) | pair(3) << 32);
        }
    }
}
