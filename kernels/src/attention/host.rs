//! Reference kernel: one query at a time against the keys and values of its head, unpacked into f32.

use super::Attention;
use crate::host::{check_operands, load_row, store_row};
use crate::strided::check_view;
use crate::{DType, Family, KernelError, View};

/// Partial sums of a scalar product, for the CPU's vector units.
const LANES: usize = 8;
/// Alignment of the workspace.
const WORKSPACE_ALIGNMENT: u64 = 64;

/// The extents of an attention, checked.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub batch: u32,
    pub heads: u32,
    /// Heads of keys and values.
    pub shared_heads: u32,
    pub queries: u32,
    pub keys: u32,
    pub size: u32,
    pub value_size: u32,
}

impl Extents {
    /// Query heads that read one head of keys and values.
    pub fn group(&self) -> u32 {
        self.heads.checked_div(self.shared_heads).unwrap_or(1).max(1)
    }
}

fn four(view: &View, what: &'static str) -> Result<[u32; 4], KernelError> {
    view.shape.as_slice().try_into().map_err(|_| KernelError::Shape(what))
}

impl Attention {
    /// The extents that all views agree on.
    pub(super) fn extents(&self) -> Result<Extents, KernelError> {
        let [batch, heads, queries, size] = four(&self.query, "query is not of rank 4")?;
        let [key_batch, shared_heads, keys, key_size] = four(&self.key, "key is not of rank 4")?;
        let [value_batch, value_heads, value_keys, value_size] = four(&self.value, "value is not of rank 4")?;
        if [key_batch, key_size] != [batch, size]
            || [value_batch, value_heads, value_keys] != [batch, shared_heads, keys]
        {
            return Err(KernelError::Shape("query, key and value do not fit"));
        }
        if shared_heads == 0 || !heads.is_multiple_of(shared_heads) {
            return Err(KernelError::Shape("heads are no multiple of the heads of the keys"));
        }
        if four(&self.output, "output is not of rank 4")? != [batch, heads, queries, value_size] {
            return Err(KernelError::Shape("output"));
        }
        if let Some(mask) = &self.mask
            && four(mask, "mask is not of rank 4")? != [batch, heads, queries, keys]
        {
            return Err(KernelError::Shape("mask"));
        }
        Ok(Extents { batch, heads, shared_heads, queries, keys, size, value_size })
    }

    /// Lengths of the parts of the workspace in floats: keys, values, a query, its scores, its result.
    fn parts(extents: &Extents) -> [usize; 5] {
        let [keys, size, value_size] = [extents.keys, extents.size, extents.value_size].map(|n| n as usize);
        [keys.saturating_mul(size), keys.saturating_mul(value_size), size, keys, value_size]
    }
}

/// First element of row `[batch, head, row]`; in bounds by the check of the view.
fn row_start(view: &View, index: [u32; 3]) -> usize {
    let steps = index.iter().zip(&view.strides).map(|(&i, &stride)| i64::from(i) * i64::from(stride)).sum::<i64>();
    (i64::from(view.offset) + steps) as usize
}

fn last_stride(view: &View) -> i32 {
    view.strides.last().copied().unwrap_or(1)
}

fn scalar_product(a: &[f32], b: &[f32]) -> f32 {
    let (mut left, mut right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let mut sums = [0.0f32; LANES];
    for (a, b) in (&mut left).zip(&mut right) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

impl Family for Attention {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.query, &self.key, &self.value, &self.output].into_iter().chain(&self.mask) {
            check_view(view)?;
        }
        self.extents()?;
        if !matches!(self.query.dtype, DType::F32 | DType::F16 | DType::Bf16) {
            return Err(KernelError::Type("query"));
        }
        if [self.key.dtype, self.value.dtype, self.output.dtype] != [self.query.dtype; 3] {
            return Err(KernelError::Type("query, key, value and output differ"));
        }
        if let Some(mask) = &self.mask
            && !matches!(mask.dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::Bool)
        {
            return Err(KernelError::Type("mask"));
        }
        if !self.scale.is_finite() {
            return Err(KernelError::Parameter("scale"));
        }
        if !(self.softcap.is_finite() && self.softcap >= 0.0) {
            return Err(KernelError::Parameter("softcap"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        match index {
            0 => Some(&self.query),
            1 => Some(&self.key),
            2 => Some(&self.value),
            3 => self.mask.as_ref(),
            _ => None,
        }
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn host_workspace(&self) -> u64 {
        let Ok(extents) = self.extents() else { return 0 };
        let floats = Self::parts(&extents).iter().fold(0u64, |sum, &part| sum.saturating_add(part as u64));
        let bytes = floats.saturating_mul(4);
        bytes.checked_next_multiple_of(WORKSPACE_ALIGNMENT).unwrap_or(bytes)
    }

    fn flops(&self) -> u64 {
        let Ok(extents) = self.extents() else { return 0 };
        let sizes = u64::from(extents.size) + u64::from(extents.value_size);
        self.query
            .elements()
            .checked_div(extents.size.into())
            .unwrap_or(0)
            .saturating_mul(extents.keys.into())
            .saturating_mul(sizes.saturating_mul(2).saturating_add(8))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([query, key, value, mask @ ..], [output]) = (inputs, outputs) else {
            return Err(KernelError::OperandCount);
        };
        let extents = self.extents()?;
        if self.output.elements() == 0 {
            return Ok(());
        }
        let floats = crate::host::cast_mut::<f32>(workspace, 5)?;
        let [keys, values, one, scores, result] = Self::parts(&extents);
        let (all_keys, rest) = floats.split_at_mut_checked(keys).ok_or(KernelError::OperandCount)?;
        let (all_values, rest) = rest.split_at_mut_checked(values).ok_or(KernelError::OperandCount)?;
        let (one_query, rest) = rest.split_at_mut_checked(one).ok_or(KernelError::OperandCount)?;
        let (scores, rest) = rest.split_at_mut_checked(scores).ok_or(KernelError::OperandCount)?;
        let sum = rest.get_mut(..result).ok_or(KernelError::OperandCount)?;
        let mut head = Head { keys: all_keys, values: all_values, query: one_query, scores, sum };
        for batch in 0..extents.batch {
            for shared in 0..extents.shared_heads {
                head.load(self, &extents, [batch, shared], key, value);
                for h in shared * extents.group()..(shared + 1) * extents.group() {
                    for i in 0..extents.queries {
                        load_row(
                            self.query.dtype,
                            query,
                            row_start(&self.query, [batch, h, i]),
                            last_stride(&self.query),
                            head.query,
                        );
                        head.score(self, i);
                        if let (Some(view), [bytes]) = (&self.mask, mask) {
                            head.mask(view, bytes, row_start(view, [batch, h, i]));
                        }
                        head.average();
                        let start = row_start(&self.output, [batch, h, i]);
                        store_row(self.output.dtype, output, start, last_stride(&self.output), head.sum);
                    }
                }
            }
        }
        Ok(())
    }
}

/// One head in f32: rows of keys and values, and what one query makes of them.
struct Head<'a> {
    keys: &'a mut [f32],
    values: &'a mut [f32],
    query: &'a mut [f32],
    scores: &'a mut [f32],
    sum: &'a mut [f32],
}

impl Head<'_> {
    fn load(&mut self, attention: &Attention, extents: &Extents, [batch, head]: [u32; 2], key: &[u8], value: &[u8]) {
        let tensors = [
            (&attention.key, key, &mut *self.keys, extents.size),
            (&attention.value, value, &mut *self.values, extents.value_size),
        ];
        for (view, bytes, rows, size) in tensors {
            for (j, row) in (0u32..).zip(rows.chunks_exact_mut(size.max(1) as usize)) {
                load_row(view.dtype, bytes, row_start(view, [batch, head, j]), last_stride(view), row);
            }
        }
    }

    /// The scores of query `i` before the mask, −∞ where causality hides a key.
    fn score(&mut self, attention: &Attention, i: u32) {
        let last = attention.causal.map_or(i64::MAX, |causal| i64::from(i) + i64::from(causal));
        let size = self.query.len();
        for (j, score) in self.scores.iter_mut().enumerate() {
            let product = self.keys.get(j * size..(j + 1) * size).map_or(0.0, |key| scalar_product(self.query, key));
            let scaled = product * attention.scale;
            *score = match j as i64 > last {
                true => f32::NEG_INFINITY,
                false if attention.softcap != 0.0 => attention.softcap * libm::tanhf(scaled / attention.softcap),
                false => scaled,
            };
        }
    }

    fn mask(&mut self, view: &View, bytes: &[u8], start: usize) {
        let step = last_stride(view) as isize;
        let mut index = start;
        for score in &mut *self.scores {
            let mut value = [0.0];
            load_row(view.dtype, bytes, index, 1, &mut value);
            match view.dtype {
                DType::Bool if value[0] == 0.0 => *score = f32::NEG_INFINITY,
                DType::Bool => {}
                _ => *score += value[0],
            }
            index = index.wrapping_add_signed(step);
        }
    }

    /// The mean of the values weighted by the softmax of the scores.
    fn average(&mut self) {
        let top = self.scores.iter().fold(f32::NEG_INFINITY, |a, &b| if a > b || a.is_nan() { a } else { b });
        let mut total = 0.0;
        self.sum.fill(0.0);
        let size = self.sum.len();
        for (score, value) in self.scores.iter().zip(self.values.chunks_exact(size.max(1))) {
            let weight = libm::expf(score - top);
            total += weight;
            self.sum.iter_mut().zip(value).for_each(|(sum, value)| *sum += weight * value);
        }
        self.sum.iter_mut().for_each(|sum| *sum /= total);
    }
}
