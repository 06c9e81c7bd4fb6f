//! Reference kernel: each class of each image after the other.

use super::overlap::{Corners, index_of, key, too_close};
use super::{NonMaxSuppression, UNUSED};
use crate::host::{cast_mut, check_operands, load_row};
use crate::strided::{check_view, offset};
use crate::{DType, Family, KernelError, View};

/// Bytes of workspace for each box: its key, its corners and its score.
const WORKSPACE: u64 = (size_of::<u64>() + size_of::<Corners>() + size_of::<f32>()) as u64;

impl Family for NonMaxSuppression {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.boxes, &self.scores, &self.thresholds, &self.indices, &self.count] {
            check_view(view)?;
        }
        let (&[images, boxes, 4], &[batches, _, scored], &[1 | 2], &[selected, 3]) = (
            self.boxes.shape.as_slice(),
            self.scores.shape.as_slice(),
            self.thresholds.shape.as_slice(),
            self.indices.shape.as_slice(),
        ) else {
            return Err(KernelError::Shape("ranks of boxes, scores, thresholds or indices"));
        };
        if images != batches || boxes != scored || self.count.elements() != 1 {
            return Err(KernelError::Shape("boxes and scores"));
        }
        let limit = self.limit();
        if self.rows().checked_mul(limit) != Some(selected.into()) || limit > boxes.into() {
            return Err(KernelError::Shape("indices of selected boxes"));
        }
        if self.indices.padded_channels != 0 || self.count.padded_channels != 0 {
            return Err(KernelError::Shape("indices with padding lanes"));
        }
        let real = |view: &View| matches!(view.dtype, DType::F32 | DType::F16 | DType::Bf16);
        if !real(&self.boxes) || !real(&self.scores) || self.thresholds.dtype != DType::F32 {
            return Err(KernelError::Type("boxes, scores or thresholds"));
        }
        if self.indices.dtype != DType::I64 || self.count.dtype != DType::I64 {
            return Err(KernelError::Type("indices or count"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        [&self.boxes, &self.scores, &self.thresholds].get(index).copied()
    }

    fn output(&self, index: usize) -> Option<&View> {
        [&self.indices, &self.count].get(index).copied()
    }

    fn host_workspace(&self) -> u64 {
        u64::from(self.boxes.shape.get(1).copied().unwrap_or(0)) * WORKSPACE
    }

    fn flops(&self) -> u64 {
        // A selected box is compared with those before it: twelve operations each.
        let pairs = self.limit().saturating_mul(self.limit()) / 2;
        self.rows().saturating_mul(pairs).saturating_mul(12)
    }

    fn host_arithmetic(&self) -> u64 {
        // Boxes that fall are compared with the selected ones, too.
        let boxes = u64::from(self.boxes.shape.get(1).copied().unwrap_or(0)).saturating_add(1);
        let pairs = boxes.saturating_mul(self.limit().saturating_add(1));
        self.rows().saturating_mul(pairs).saturating_mul(12)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([boxes, scores, thresholds], [indices, count]) = (inputs, outputs) else {
            return Err(KernelError::OperandCount);
        };
        let (indices, count) = (cast_mut::<i64>(indices, 3)?, cast_mut::<i64>(count, 4)?);
        let mut limits = [0.0; 2];
        let given = (self.thresholds.shape[0] as usize).min(limits.len());
        load_row(
            DType::F32,
            thresholds,
            self.thresholds.offset as usize,
            self.thresholds.strides[0],
            &mut limits[..given],
        );
        let [images, classes, n] = [0, 1, 2].map(|d| self.scores.shape[d] as usize);
        let (keys, rest) = workspace.split_at_mut(n * size_of::<u64>());
        let (corners, row) = rest.split_at_mut(n * size_of::<Corners>());
        let keys = cast_mut::<u64>(keys, 5)?;
        let corners = cast_mut::<Corners>(corners, 5)?;
        let row = cast_mut::<f32>(&mut row[..n * size_of::<f32>()], 5)?;
        let mut rows = Rows { view: &self.indices, elements: indices, used: 0 };
        for image in 0..images {
            self.load_boxes(boxes, image, corners);
            for class in 0..classes {
                let start = offset(self.scores.offset as usize, self.scores.strides[0].into(), image);
                let start = offset(start, self.scores.strides[1].into(), class);
                load_row(self.scores.dtype, scores, start, self.scores.strides[2], row);
                let mut found = 0;
                for (index, &score) in row.iter().enumerate() {
                    let wanted = if given == 1 { !score.is_nan() } else { score > limits[1] };
                    if wanted {
                        keys[found] = key(score, index as u32);
                        found += 1;
                    }
                }
                let keys = &mut keys[..found];
                keys.sort_unstable_by(|a, b| b.cmp(a));
                self.select(keys, corners, limits[0], |index| {
                    rows.push([image as i64, class as i64, i64::from(index)]);
                });
            }
        }
        let selected = rows.used;
        rows.fill(self.indices.shape[0] as usize);
        count[self.count.offset as usize] = selected as i64;
        Ok(())
    }
}

/// The rows of the indices, written one after the other.
struct Rows<'a> {
    view: &'a View,
    elements: &'a mut [i64],
    used: usize,
}

impl Rows<'_> {
    fn push(&mut self, row: [i64; 3]) {
        let start = offset(self.view.offset as usize, self.view.strides[0].into(), self.used);
        for (column, value) in row.into_iter().enumerate() {
            self.elements[offset(start, self.view.strides[1].into(), column)] = value;
        }
        self.used += 1;
    }

    /// Marks the rows up to `all` as unused.
    fn fill(&mut self, all: usize) {
        while self.used < all {
            self.push([UNUSED; 3]);
        }
    }
}

impl NonMaxSuppression {
    /// The boxes of an image.
    fn load_boxes(&self, boxes: &[u8], image: usize, corners: &mut [Corners]) {
        let start = offset(self.boxes.offset as usize, self.boxes.strides[0].into(), image);
        for (n, corners) in corners.iter_mut().enumerate() {
            let start = offset(start, self.boxes.strides[1].into(), n);
            let mut given = [0.0; 4];
            load_row(self.boxes.dtype, boxes, start, self.boxes.strides[2], &mut given);
            let [a, b, c, d] = given;
            // A NaN goes where ONNX Runtime puts it.
            let order = |a: f32, b: f32| if a >= b { (b, a) } else { (a, b) };
            *corners = match (self.center, order(a, c), order(b, d)) {
                (true, ..) => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
                (false, (top, bottom), (left, right)) => [top, left, bottom, right],
            };
        }
    }

    /// Calls `selected` with the boxes that stay, in order. `keys` fall; the front of it is used up.
    fn select(&self, keys: &mut [u64], corners: &[Corners], threshold: f32, mut selected: impl FnMut(u32)) {
        let limit = self.limit() as usize;
        let mut kept = 0;
        for candidate in 0..keys.len() {
            if kept == limit {
                return;
            }
            let index = index_of(keys[candidate]);
            let corner = &corners[index as usize];
            let stays = |&better: &u64| !too_close(corner, &corners[index_of(better) as usize], threshold);
            if keys[..kept].iter().all(stays) {
                keys[kept] = keys[candidate];
                kept += 1;
                selected(index);
            }
        }
    }
}
