//! Registers of a warp: 32 lanes side by side.

/// A mask with every lane.
pub(super) const ALL: u32 = u32::MAX;

/// 32 bits of every lane.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Row(pub [u32; 32]);

/// Where a value lives: a row of the warp or, with the top bit, of the program's constants. 64-bit values take two
/// rows, the low halves first. For predicates: an index of a mask; with the top bit, the constant of the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub u32);

impl Slot {
    pub const CONSTANT: u32 = 1 << 31;
    pub const TRUE: Self = Self(Self::CONSTANT | 1);
    pub const FALSE: Self = Self(Self::CONSTANT);
    /// Written and never read: results that go nowhere.
    pub const SINK: Self = Self(0);

    /// The row after it: the high half of a 64-bit value.
    pub fn high(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Destination and sources of most instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    pub d: Slot,
    pub a: Slot,
    pub b: Slot,
    pub c: Slot,
}

/// All registers of one warp. Rows 0 and 1 and predicate 0 are the sinks.
pub(super) struct Registers<'p> {
    pub rows: Vec<Row>,
    pub predicates: Vec<u32>,
    /// The carry of each lane.
    pub carry: u32,
    pub constants: &'p [Row],
}

impl<'p> Registers<'p> {
    pub fn new(rows: usize, predicates: usize, constants: &'p [Row]) -> Self {
        Self { rows: vec![Row([0; 32]); rows], predicates: vec![0; predicates], carry: 0, constants }
    }

    #[inline(always)]
    pub fn row(&self, slot: Slot) -> &[u32; 32] {
        if slot.0 & Slot::CONSTANT == 0 {
            &self.rows[slot.0 as usize].0
        } else {
            &self.constants[(slot.0 ^ Slot::CONSTANT) as usize].0
        }
    }

    #[inline(always)]
    pub fn row_mut(&mut self, slot: Slot) -> &mut [u32; 32] {
        &mut self.rows[slot.0 as usize].0
    }

    #[inline(always)]
    pub fn predicate(&self, slot: Slot) -> u32 {
        if slot.0 & Slot::CONSTANT == 0 { self.predicates[slot.0 as usize] } else { (slot.0 & 1).wrapping_neg() }
    }

    #[inline(always)]
    pub fn set_predicate(&mut self, slot: Slot, value: u32, lanes: u32) {
        let old = &mut self.predicates[slot.0 as usize];
        *old = *old & !lanes | value & lanes;
    }

    #[inline(always)]
    pub fn set_row(&mut self, slot: Slot, values: &[u32; 32], lanes: u32) {
        let row = self.row_mut(slot);
        if lanes == ALL {
            *row = *values;
        } else {
            for lane in 0..32 {
                let keep = (lanes >> lane & 1).wrapping_sub(1);
                row[lane] = row[lane] & keep | values[lane] & !keep;
            }
        }
    }

    #[inline(always)]
    pub fn set_long(&mut self, slot: Slot, values: &[u64; 32], lanes: u32) {
        self.set_row(slot, &every(|lane| values[lane] as u32), lanes);
        self.set_row(slot.high(), &every(|lane| (values[lane] >> 32) as u32), lanes);
    }

    #[inline(always)]
    pub fn long(&self, slot: Slot) -> [u64; 32] {
        let (low, high) = (self.row(slot), self.row(slot.high()));
        every(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
    }

    #[inline(always)]
    pub fn get<T: Lane>(&self, slot: Slot) -> [T; 32] {
        T::get(self, slot)
    }

    #[inline(always)]
    pub fn set<T: Lane>(&mut self, slot: Slot, values: &[T; 32], lanes: u32) {
        T::set(self, slot, values, lanes);
    }

    #[inline(always)]
    pub fn unary<A: Lane, D: Lane>(&mut self, s: &Slots, lanes: u32, f: impl Fn(A) -> D) {
        let a = self.get::<A>(s.a);
        self.set::<D>(s.d, &every(|l| f(a[l])), lanes);
    }

    #[inline(always)]
    pub fn binary<A: Lane, B: Lane, D: Lane>(&mut self, s: &Slots, lanes: u32, f: impl Fn(A, B) -> D) {
        let (a, b) = (self.get::<A>(s.a), self.get::<B>(s.b));
        self.set::<D>(s.d, &every(|l| f(a[l], b[l])), lanes);
    }

    #[inline(always)]
    pub fn ternary<A: Lane, B: Lane, C: Lane, D: Lane>(&mut self, s: &Slots, lanes: u32, f: impl Fn(A, B, C) -> D) {
        let (a, b, c) = (self.get::<A>(s.a), self.get::<B>(s.b), self.get::<C>(s.c));
        self.set::<D>(s.d, &every(|l| f(a[l], b[l], c[l])), lanes);
    }
}

/// Type of one lane of a register.
pub(super) trait Lane: Copy + Default {
    fn get(registers: &Registers<'_>, slot: Slot) -> [Self; 32];
    fn set(registers: &mut Registers<'_>, slot: Slot, values: &[Self; 32], lanes: u32);
}

macro_rules! lane {
    ($($type:ty: $bits:ty, $from:expr, $to:expr;)*) => {$(
        impl Lane for $type {
            #[inline(always)]
            fn get(registers: &Registers<'_>, slot: Slot) -> [Self; 32] {
                let row = registers.row(slot);
                every(|lane| ($from)(row[lane]))
            }

            #[inline(always)]
            fn set(registers: &mut Registers<'_>, slot: Slot, values: &[Self; 32], lanes: u32) {
                registers.set_row(slot, &every(|lane| ($to)(values[lane])), lanes);
            }
        }
    )*};
}

lane! {
    u8: u32, |x: u32| x as u8, u32::from;
    i8: u32, |x: u32| x as i8, |x: i8| u32::from(x as u8);
    u16: u32, |x: u32| x as u16, u32::from;
    i16: u32, |x: u32| x as i16, |x: i16| u32::from(x as u16);
    u32: u32, |x: u32| x, |x: u32| x;
    i32: u32, |x: u32| x as i32, |x: i32| x as u32;
    f32: u32, f32::from_bits, f32::to_bits;
}

macro_rules! long_lane {
    ($($type:ty: $from:expr, $to:expr;)*) => {$(
        impl Lane for $type {
            #[inline(always)]
            fn get(registers: &Registers<'_>, slot: Slot) -> [Self; 32] {
                let longs = registers.long(slot);
                every(|lane| ($from)(longs[lane]))
            }

            #[inline(always)]
            fn set(registers: &mut Registers<'_>, slot: Slot, values: &[Self; 32], lanes: u32) {
                registers.set_long(slot, &every(|lane| ($to)(values[lane])), lanes);
            }
        }
    )*};
}

long_lane! {
    u64: |x: u64| x, |x: u64| x;
    i64: |x: u64| x as i64, |x: i64| x as u64;
    f64: f64::from_bits, f64::to_bits;
}

/// A value for every lane. A plain loop: unlike the array's own functions it is sure to become vector instructions.
#[inline(always)]
pub(super) fn every<T: Copy + Default>(f: impl Fn(usize) -> T) -> [T; 32] {
    let mut values = [T::default(); 32];
    for (lane, value) in values.iter_mut().enumerate() {
        *value = f(lane);
    }
    values
}

/// Lanes of a mask, lowest first.
#[inline(always)]
pub(super) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            lane
        })
    })
}

/// Mask of the lanes that a condition holds for.
#[inline(always)]
pub(super) fn mask_of(condition: impl Fn(usize) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..32 {
        mask |= u32::from(condition(lane)) << lane;
    }
    mask
}

/// Defines a function twice, for the machine at hand and for any, and calls the one that fits: loops over lanes become
/// vector instructions, and `mul_add` one instruction instead of a call.
macro_rules! vectorised {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$attribute])*
        $visibility fn $name($($argument: $type),*) {
            #[inline(always)]
            fn common($($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($argument: $type),*) {
                    common($($argument),*);
                }
                if crate::machine::lanes::has_wide() {
                    // SAFETY: the processor has what the function is compiled for.
                    unsafe { wide($($argument),*) };
                    return;
                }
            }
            common($($argument),*);
        }
    };
}
pub(super) use vectorised;

/// Whether the processor has what [`vectorised`] functions may be compiled for.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn has_wide() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}
