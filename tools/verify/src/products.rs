//! Products of matrices, `mma.sync` and `wgmma`, over random and adversarial operands: every lane and register has its own.
//!
//! The ISA leaves the sums open, so what is expected is what the emulator computes with the arithmetic of the GPU's own
//! architecture, bit for bit.

use floe::random::Generator;
use std::fmt::Write as _;

/// Tiles that an instruction multiplies.
const TILES: u64 = 768;
/// A descriptor's fields besides the address: rows of 128 swizzled bytes, eight of them 1024 bytes apart.
const DESCRIPTOR: u64 = 1 << 62 | (1024 >> 4) << 32 | 1 << 16;
/// Bytes of a tile's row in shared memory.
const ROW: usize = 128;

/// How an element is encoded: bits of its exponent and of its fraction, and bits below them that do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Format {
    exponent: u32,
    fraction: u32,
    unused: u32,
}

const F16: Format = Format { exponent: 5, fraction: 10, unused: 0 };
const BF16: Format = Format { exponent: 8, fraction: 7, unused: 0 };
const TF32: Format = Format { exponent: 8, fraction: 10, unused: 13 };
const F32: Format = Format { exponent: 8, fraction: 23, unused: 0 };

/// A form of the instruction.
pub struct Form {
    /// As reports name it.
    pub name: &'static str,
    /// Architecture of its PTX.
    pub arch: &'static str,
    /// Rows, columns, and products of a sum.
    pub shape: [usize; 3],
    factors: Format,
    sums: Format,
}

const fn form(name: &'static str, shape: [usize; 3], factors: Format, sums: Format) -> Form {
    Form { name, arch: "sm_80", shape, factors, sums }
}

const fn warpgroup(name: &'static str, columns: usize, factors: Format) -> Form {
    Form { name, arch: "sm_90a", shape: [64, columns, 16], factors, sums: F32 }
}

/// What Floe's kernels use, and the neighbours that the emulator knows.
pub const FORMS: [Form; 12] = [
    form("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", [16, 8, 16], F16, F32),
    form("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", [16, 8, 8], F16, F32),
    form("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", [16, 8, 16], BF16, F32),
    form("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", [16, 8, 8], BF16, F32),
    form("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", [16, 8, 8], TF32, F32),
    form("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", [16, 8, 4], TF32, F32),
    form("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", [16, 8, 16], F16, F16),
    form("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", [16, 8, 8], F16, F16),
    warpgroup("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 8, F16),
    warpgroup("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", 64, F16),
    warpgroup("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", 8, BF16),
    warpgroup("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", 64, BF16),
];

/// Bits of a tile's elements, row by row: `a` of rows and products, `b` of products and columns, `c` of rows and columns.
pub struct Tile {
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub c: Vec<u32>,
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// A number from 2^`e` up to 2^(`e` + 1), or what the format has nearest to that size: `fraction` has 23 bits.
    fn number(self, negative: bool, e: i32, fraction: u32, below: u32) -> u32 {
        let (top, hidden) = (2 * self.bias(), 1 << self.fraction);
        let fraction = fraction >> (23 - self.fraction);
        let magnitude = match e + self.bias() {
            biased if biased > top => (top as u32) << self.fraction | (hidden - 1),
            biased if biased > 0 => (biased as u32) << self.fraction | fraction,
            biased => (hidden | fraction).checked_shr(1 + biased.unsigned_abs()).unwrap_or(0),
        };
        (u32::from(negative) << (self.exponent + self.fraction) | magnitude) << self.unused
            | below & ((1 << self.unused) - 1)
    }

    fn value(self, bits: u32) -> f64 {
        let bits = bits >> self.unused;
        let field = bits >> self.fraction & ((1 << self.exponent) - 1);
        let fraction = f64::from(bits & ((1 << self.fraction) - 1)) / f64::from(1_u32 << self.fraction);
        let magnitude = match field as i32 {
            0 => fraction * 2.0_f64.powi(1 - self.bias()),
            field if field == 2 * self.bias() + 1 => {
                if fraction == 0.0 {
                    f64::INFINITY
                } else {
                    f64::NAN
                }
            }
            field => (1.0 + fraction) * 2.0_f64.powi(field - self.bias()),
        };
        if bits >> (self.exponent + self.fraction) & 1 == 1 { -magnitude } else { magnitude }
    }

    fn smallest(self) -> f64 {
        2.0_f64.powi(1 - self.bias())
    }

    /// Infinities, NaN with several payloads, the largest and the smallest numbers.
    fn special(self, which: u64) -> u32 {
        let (infinity, sign) = ((2 * self.bias() as u32 + 1) << self.fraction, 1 << (self.exponent + self.fraction));
        let bits = [
            infinity,
            infinity | sign,
            infinity | 1 << (self.fraction - 1),
            infinity | sign | 3,
            infinity - 1,
            (infinity - 1) | sign,
            1,
            sign,
        ];
        bits[which as usize % bits.len()] << self.unused
    }
}

/// How a tile's fractions are chosen.
#[derive(Clone, Copy)]
enum Fractions {
    Any,
    /// None, all or one bit set: sums that end at a cut.
    Sparse,
}

struct Source {
    generator: Generator,
}

impl Source {
    fn below(&mut self, bound: i32) -> i32 {
        self.generator.below(bound as u64) as i32
    }

    fn number(&mut self, format: Format, e: i32, fractions: Fractions) -> u32 {
        let bits = self.generator.bits();
        let fraction = match (fractions, bits >> 32 & 3) {
            (Fractions::Any, _) => bits as u32 & 0x7f_ffff,
            (Fractions::Sparse, 0) => 0x7f_ffff,
            (Fractions::Sparse, 1) => 1 << (bits % 23),
            (Fractions::Sparse, _) => 0,
        };
        format.number(bits >> 63 == 1, e, fraction, (bits >> 40) as u32)
    }

    /// Numbers whose exponents lie within `width` around `centre`.
    fn matrix(&mut self, format: Format, count: usize, (centre, width): (i32, i32), fractions: Fractions) -> Vec<u32> {
        let mut number = || {
            let e = centre + self.below(width.max(1)) - width / 2;
            self.number(format, e, fractions)
        };
        (0..count).map(|_| number()).collect()
    }
}

impl Form {
    /// Tile `number`: every eleventh is of the same kind.
    pub fn tile(&self, number: u64) -> Tile {
        let mut source = Source { generator: Generator::new(number, self.name) };
        let s = &mut source;
        let [m, n, k] = self.shape;
        let (lowest, span) = (1 - self.factors.bias(), 2 * self.factors.bias());
        let (ordinary, kind) = ((-1, 4), number % 11);
        // Centres of exponents of `a`, `b` and `c`, and how far they spread.
        let (of_a, of_b, of_c, fractions) = match kind {
            0 => (ordinary, ordinary, ordinary, Fractions::Any),
            // Exponents far apart, sums of the products' size.
            1..=3 => {
                let width = 2 + s.below(15);
                let reach = (span / 4).min(30);
                let (a, b) = (s.below(reach) - reach / 2, s.below(reach) - reach / 2);
                let fractions = if kind == 2 { Fractions::Sparse } else { Fractions::Any };
                ((a, width), (b, width), (a + b + s.below(7) - 3, 2 * width), fractions)
            }
            // Subnormal factors.
            4 => ((lowest - 4, 12), (lowest + s.below(30), 10), (2 * lowest + s.below(30), 30), Fractions::Any),
            5 => (ordinary, ordinary, (s.below(30) - 15, 2), Fractions::Sparse),
            6 => (ordinary, ordinary, ordinary, Fractions::Any),
            // Up to overflow.
            7 => {
                let (top, half) = (self.sums.bias(), (self.sums.bias() / 2).min(self.factors.bias()));
                ((half - 2, 6), (half - 2, 6), (top - 2, 6), Fractions::Any)
            }
            8 => (ordinary, ordinary, (s.below(60) - 30, 2), Fractions::Any),
            // Anything finite.
            9 => ((0, span), (0, span), (0, 2 * self.sums.bias()), Fractions::Any),
            // Results that are subnormal, or would be.
            _ => {
                let low = (1 - self.sums.bias()) / 2;
                ((low - 2, 14), (low - 2, 14), (2 * low - 4, 20), Fractions::Any)
            }
        };
        let mut a = s.matrix(self.factors, m * k, of_a, fractions);
        let mut b = s.matrix(self.factors, k * n, of_b, fractions);
        let mut c = s.matrix(self.sums, m * n, of_c, fractions);
        let sign = 1 << (self.factors.exponent + self.factors.fraction + self.factors.unused);
        match kind {
            // Every second product is the negative of another one, or of its neighbour.
            3 => {
                let far = if s.below(2) == 0 { 1 } else { k / 2 };
                for i in (0..k).filter(|i| i / far % 2 == 1) {
                    for row in 0..m {
                        a[row * k + i] = a[row * k + i - far];
                    }
                    for column in 0..n {
                        let apart = u32::from(s.below(4) == 0) << self.factors.unused;
                        b[i * n + column] = b[(i - far) * n + column] ^ sign ^ apart;
                    }
                }
            }
            // Mostly zeros of both signs.
            5 => {
                let zeros = 2 + s.below(12);
                let sums = 1 << (self.sums.exponent + self.sums.fraction);
                for (matrix, sign) in [(&mut a, sign), (&mut c, sums)] {
                    for element in matrix.iter_mut() {
                        if s.below(zeros) > 0 {
                            *element = if s.below(2) == 0 { 0 } else { sign };
                        }
                    }
                }
            }
            6 => {
                for (matrix, format) in [(&mut a, self.factors), (&mut b, self.factors), (&mut c, self.sums)] {
                    for element in matrix.iter_mut() {
                        if s.below(24) == 0 {
                            *element = format.special(s.generator.bits());
                        }
                    }
                }
            }
            _ => {}
        }
        Tile { a, b, c }
    }

    /// Its tiles.
    pub fn tiles(&self) -> Vec<Tile> {
        let count = if self.is_warpgroup() { TILES * 16 / (64 * self.shape[1] as u64 / 8) } else { TILES };
        (0..count.max(33)).map(|number| self.tile(number)).collect()
    }

    fn is_warpgroup(&self) -> bool {
        self.shape[0] == 64
    }

    /// Threads of a block, which multiplies a tile.
    pub fn threads(&self) -> usize {
        2 * self.shape[0]
    }

    /// Elements in a register of factors, and of sums.
    fn packed(&self) -> (usize, usize) {
        let of = |format: Format| if format.exponent + format.fraction + format.unused == 31 { 1 } else { 2 };
        (of(self.factors), of(self.sums))
    }

    /// Registers of `a`, `b` and `c` that a thread holds.
    fn registers(&self) -> [usize; 3] {
        let [m, n, k] = self.shape;
        let (factors, sums) = self.packed();
        let threads = self.threads();
        if self.is_warpgroup() {
            return [0, 0, m * n / threads];
        }
        [m * k / factors / threads, k * n / factors / threads, m * n / sums / threads]
    }

    /// Words of a block's operands.
    pub fn input(&self) -> usize {
        let registers: usize = self.registers().iter().sum();
        self.threads() * registers + self.shared() / 4
    }

    /// Words of a block's results.
    pub fn output(&self) -> usize {
        self.threads() * self.registers()[2]
    }

    /// Bytes of a block's tiles in shared memory.
    fn shared(&self) -> usize {
        if self.is_warpgroup() { (self.shape[0] + self.shape[1]) * ROW } else { 0 }
    }

    /// Where element `i` of register `register` of the sums lies in its matrix.
    fn place_of_sum(&self, thread: usize, register: usize, i: usize) -> usize {
        let (lane, warp, packed) = (thread % 32, thread / 32, self.packed().1);
        let element = register * packed + i;
        let row = 16 * warp + lane / 4 + 8 * (element / 2 % 2);
        row * self.shape[1] + 8 * (element / 4) + 2 * (lane % 4) + element % 2
    }

    /// The words that a block reads: registers of each thread after those of the thread before, then shared memory.
    pub fn words(&self, tile: &Tile) -> Vec<u32> {
        let [_, n, k] = self.shape;
        let (packed, _) = self.packed();
        let [of_a, of_b, of_c] = self.registers();
        let width = 32 / packed;
        let mut words = Vec::new();
        for thread in 0..self.threads() {
            let (group, first) = (thread % 32 / 4, thread % 4 * packed);
            let pack = |element: &dyn Fn(usize) -> u32| (0..packed).fold(0, |word, i| word | element(i) << (width * i));
            for register in 0..of_a {
                let (row, at) = (group + 8 * (register % 2), first + 4 * packed * (register / 2));
                words.push(pack(&|i| tile.a[row * k + at + i]));
            }
            for register in 0..of_b {
                words.push(pack(&|i| tile.b[(first + 4 * packed * register + i) * n + group]));
            }
            for register in 0..of_c {
                let sums = self.packed().1;
                let element = |i| tile.c[self.place_of_sum(thread, register, i)];
                words.push((0..sums).fold(0, |word, i| word | element(i) << (32 / sums * i)));
            }
        }
        if self.is_warpgroup() {
            // Rows of `a`, then columns of `b`; only the first 32 bytes of the 128 are read.
            let mut shared = vec![0_u16; self.shared() / 2];
            let mut put = |line: usize, i: usize, element: u32| {
                let address = line * ROW + 2 * i;
                shared[(address ^ (line % 8) << 4) / 2] = element as u16;
            };
            for i in 0..k {
                (0..64).for_each(|row| put(row, i, tile.a[row * k + i]));
                (0..n).for_each(|column| put(64 + column, i, tile.b[i * n + column]));
            }
            words.extend(shared.chunks(2).map(|two| u32::from(two[0]) | u32::from(two[1]) << 16));
        }
        words
    }

    /// The results of a block as a matrix, from the words that it wrote.
    pub fn matrix(&self, words: &[u32]) -> Vec<u32> {
        let (sums, registers) = (self.packed().1, self.registers()[2]);
        let mut matrix = vec![0; self.shape[0] * self.shape[1]];
        for (place, word) in words.iter().enumerate() {
            for i in 0..sums {
                let element = if sums == 2 { word >> (16 * i) & 0xffff } else { *word };
                matrix[self.place_of_sum(place / registers, place % registers, i)] = element;
            }
        }
        matrix
    }

    /// What part of the bound a result uses up, against the sum in f64: a term may lose what lies below 2^-23 of the largest, in
    /// each of four blocks; factors below the smallest normal number count as that.
    pub fn error(&self, tile: &Tile, place: usize, result: u32) -> f64 {
        let [_, n, k] = self.shape;
        let (row, column) = (place / n, place % n);
        let (factors, sums) = (self.factors, self.sums);
        let sum = sums.value(tile.c[place]);
        let (mut exact, mut largest, mut sizes) = (sum, sum.abs(), if sum.is_finite() { sum.abs() } else { 0.0 });
        for i in 0..k {
            let [a, b] = [tile.a[row * k + i], tile.b[i * n + column]].map(|bits| factors.value(bits));
            exact += a * b;
            sizes += if (a * b).is_finite() { (a * b).abs() } else { 0.0 };
            if a != 0.0 && b != 0.0 {
                largest = largest.max(a.abs().max(factors.smallest()) * b.abs().max(factors.smallest()));
            }
        }
        let result = sums.value(result);
        let top = 2.0_f64.powi(sums.bias()) * (2.0 - 2.0_f64.powi(-(sums.fraction as i32)));
        // From one block to the next a sum may become infinite.
        if sizes > top {
            return 0.0;
        }
        if !exact.is_finite() {
            let same = result == exact || result.is_nan() && exact.is_nan();
            return if same { 0.0 } else { f64::INFINITY };
        }
        let unit = 2.0_f64.powi(-(sums.fraction as i32)) * largest.max(sums.smallest());
        let bound = (k as f64 + 4.0) * 2.0_f64.powi(-23) * largest + 4.0 * unit;
        // Just below the largest number a sum may be rounded to infinity.
        let reached = if result.is_infinite() { top.copysign(result) } else { result };
        if result.is_nan() { f64::INFINITY } else { (reached - exact).abs() / bound }
    }

    /// The kernel `products`.
    pub fn text(&self) -> String {
        let [of_a, of_b, of_c] = self.registers();
        let all = of_a + of_b + of_c;
        let (name, arch, threads, shared) = (self.name, self.arch, self.threads(), self.shared());
        let letter = if self.sums == F32 { 'f' } else { 'r' };
        let list = |letter: char, first: usize, count: usize| {
            (first..first + count).map(|i| format!("%{letter}{}", 10 + i)).collect::<Vec<_>>().join(", ")
        };
        let (version, tiles) = if self.is_warpgroup() {
            ("8.0", format!(".shared .align 1024 .b8 tiles[{shared}];\n"))
        } else {
            ("7.0", String::new())
        };
        let mut text = format!(
            ".version {version}\n.target {arch}\n.address_size 64\n.visible .entry products(.param .u64 in, .param .u64 out) {{\n\
             {tiles}.reg .pred %p<2>; .reg .b32 %r<{0}>; .reg .f32 %f<{0}>; .reg .b64 %d<9>;\n\
             ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d1, %d1;\n\
             mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;\n\
             mul.wide.u32 %d2, %r1, {1}; add.s64 %d0, %d0, %d2; mul.wide.u32 %d2, %r0, {2}; add.s64 %d3, %d0, %d2;\n\
             mul.wide.u32 %d2, %r1, {3}; add.s64 %d1, %d1, %d2; mul.wide.u32 %d2, %r0, {4}; add.s64 %d1, %d1, %d2;\n",
            all + 10,
            4 * self.input(),
            4 * all,
            4 * self.output(),
            4 * of_c,
        );
        for i in 0..all {
            let letter = if i < of_a + of_b { 'r' } else { letter };
            let _ = writeln!(text, "ld.global.b32 %{letter}{}, [%d3+{}];", 10 + i, 4 * i);
        }
        let sums = list(letter, of_a + of_b, of_c);
        if self.is_warpgroup() {
            let _ = writeln!(text, "shl.b32 %r2, %r0, 2; mov.u32 %r3, tiles; add.s32 %r2, %r2, %r3;");
            let _ = writeln!(text, "cvt.u64.u32 %d4, %r0; shl.b64 %d4, %d4, 2; add.s64 %d4, %d4, %d0;");
            for i in 0..shared / 4 / threads {
                let from = 4 * (threads * all + threads * i);
                let _ =
                    writeln!(text, "ld.global.u32 %r4, [%d4+{from}]; st.shared.u32 [%r2+{}], %r4;", 4 * threads * i);
            }
            let _ = writeln!(
                text,
                "fence.proxy.async.shared::cta; bar.sync 0;\n\
                 shr.u32 %r3, %r3, 4; cvt.u64.u32 %d5, %r3; or.b64 %d5, %d5, {DESCRIPTOR}; add.s64 %d6, %d5, {};\n\
                 setp.eq.u32 %p0, 0, 0; wgmma.fence.sync.aligned;\n{name} {{{sums}}}, %d5, %d6, %p0, 1, 1, 0, 0;\n\
                 wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
                64 * ROW / 16
            );
        } else {
            let (a, b) = (list('r', 0, of_a), list('r', of_a, of_b));
            let _ = writeln!(text, "{name} {{{sums}}}, {{{a}}}, {{{b}}}, {{{sums}}};");
        }
        for i in 0..of_c {
            let _ = writeln!(text, "st.global.b32 [%d1+{}], %{letter}{};", 4 * i, 10 + of_a + of_b + i);
        }
        text + "ret;\n}\n\0"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_from_where_their_registers_lie() {
        for form in &FORMS {
            let tile = form.tile(3);
            let (words, [of_a, of_b, of_c]) = (form.words(&tile), form.registers());
            assert_eq!(words.len(), form.input(), "{}", form.name);
            let registers = of_a + of_b + of_c;
            let threads = words[..form.threads() * registers].chunks(registers);
            let sums: Vec<u32> = threads.flat_map(|words| &words[of_a + of_b..]).copied().collect();
            assert_eq!(form.matrix(&sums), tile.c, "{}", form.name);
        }
    }

    #[test]
    fn numbers_are_encoded_and_read_again() {
        for format in [F16, BF16, TF32, F32] {
            for (e, fraction, value) in [(0, 0, 1.0), (3, 1 << 22, 12.0), (1 - format.bias(), 0, format.smallest())] {
                assert_eq!(format.value(format.number(false, e, fraction, 0)), value, "{format:?}");
                assert_eq!(format.value(format.number(true, e, fraction, u32::MAX)), -value, "{format:?}");
            }
            assert_eq!(format.value(format.number(false, -format.bias(), 0, 0)), format.smallest() / 2.0);
            assert!(format.value(format.number(false, 999, 0, 0)).is_finite());
            assert!(format.value(format.special(0)).is_infinite() && format.value(format.special(2)).is_nan());
        }
    }

    #[test]
    fn a_wrong_sum_is_seen() {
        let form = &FORMS[0];
        let tile = form.tile(0);
        let [_, n, k] = form.shape;
        let exact = (0..k).fold(F32.value(tile.c[0]), |sum, i| sum + F16.value(tile.a[i]) * F16.value(tile.b[i * n]));
        assert!(form.error(&tile, 0, (exact as f32).to_bits()) < 0.1);
        assert!(form.error(&tile, 0, (exact as f32 * 1.0001).to_bits()) > 1.0);
        assert!(form.error(&tile, 0, f32::NAN.to_bits()) > 1.0);
        assert!(form.error(&tile, 0, f32::INFINITY.to_bits()) > 1.0);
    }
}
