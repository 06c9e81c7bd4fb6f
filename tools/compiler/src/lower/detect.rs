//! Lowering of boxes from a detector's head: numbers are read where the layers left them, in whatever layout that is.

use super::{Form, Located, Lowering};
use crate::{fused::FusedNode, kernel_graph::BufferRange};
use floe_kernels::{
    DType, Kernel,
    detect::{Detect, Parts},
};
use floe_models::{TensorId, op};

impl<'a> Lowering<'a> {
    pub(super) fn detect(&mut self, node: &'a FusedNode, detect: &op::Detect) -> Result<(), String> {
        let (heads, places) = node.inputs.split_at(node.inputs.len() - 1);
        let (boxes, scores) = heads.split_at(detect.boxes);
        let mut ranges = Vec::new();
        let boxes = self.parts(boxes, detect.numbers, detect.columns, &mut ranges)?;
        let scores = self.parts(scores, detect.head.classes as usize, detect.columns, &mut ranges)?;
        let candidates = boxes.iter().map(|part| part.shape[0] * part.shape[1]).sum::<u32>();
        let places = self.request(places[0], Form::Any, DType::F32)?.expanded(&[candidates as usize, 6]);
        let (range, places) = self.operand(&places)?;
        ranges.push(range);
        let results = [0, 1].map(|output| {
            let located = self.allocate(node.outputs[output]);
            self.operand(&located)
        });
        let [(detections_range, detections), (count_range, count)] = {
            let [detections, count] = results;
            [detections?, count?]
        };
        let kernel = Detect { boxes, scores, places, detections, count, head: detect.head };
        self.push(Kernel::Detect(kernel), ranges, vec![detections_range, count_range]);
        Ok(())
    }

    /// Views `[rows, candidates of a row, numbers]` of inputs, all of one type.
    fn parts(
        &mut self,
        inputs: &[TensorId],
        numbers: usize,
        columns: bool,
        ranges: &mut Vec<BufferRange>,
    ) -> Result<Parts, String> {
        let mut located = Vec::new();
        for &input in inputs {
            located.push(self.any(input)?);
        }
        let same = located.windows(2).all(|pair| pair[0].dtype == pair[1].dtype);
        let mut parts = Parts::new();
        for (&input, located) in inputs.iter().zip(located) {
            let located = if same { located } else { self.request(input, Form::Any, DType::F32)? };
            let turned = |located: Located| if columns { located.permuted(&[0, 2, 1]) } else { located };
            let part = match in_rows(&turned(located.clone()), numbers) {
                Some(part) => part,
                None => {
                    let contiguous = self.request(input, Form::Contiguous, located.dtype)?;
                    in_rows(&turned(contiguous), numbers).ok_or("an input is not made of whole candidates")?
                }
            };
            let (range, view) = self.operand(&part)?;
            ranges.push(range);
            parts.push(view).map_err(|_| "too many inputs")?;
        }
        Ok(parts)
    }
}

/// A value as `[rows, candidates of a row, numbers]`, where strides can express it.
fn in_rows(located: &Located, numbers: usize) -> Option<Located> {
    let all: usize = located.shape.iter().product();
    (0..=located.shape.len()).find_map(|outer| {
        let rows: usize = located.shape[..outer].iter().product();
        let row = all.checked_div(rows)?.checked_div(numbers)?;
        (rows * row * numbers == all).then(|| located.reshaped(&[rows, row, numbers])).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_graph::BufferId;

    #[test]
    fn heads_are_read_where_convolutions_leave_them() {
        // Channels innermost and padded: two anchors of one number a pixel, three of 85.
        for (anchors, numbers) in [(2, 1), (3, 85)] {
            let image = Located::channels_last(BufferId(0), DType::F16, &[1, anchors * numbers, 5, 7]);
            let padded_channels = image.padded_channels as i64;
            let part = in_rows(&image.permuted(&[0, 2, 3, 1]), numbers).unwrap();
            assert_eq!(
                (part.shape, part.strides),
                (vec![35, anchors, numbers], vec![padded_channels, numbers as i64, 1])
            );
            // An anchor after the other.
            let split = image.reshaped(&[1, anchors, numbers, 5, 7]).unwrap().permuted(&[0, 1, 3, 4, 2]);
            let part = in_rows(&split, numbers).unwrap();
            assert_eq!(
                (part.shape, part.strides),
                (vec![anchors, 35, numbers], vec![numbers as i64, padded_channels, 1])
            );
        }
        // Planes, whose anchors' numbers are not behind each other.
        let planes = Located::plain(BufferId(0), DType::F32, &[1, 6, 5, 7]);
        assert!(in_rows(&planes.permuted(&[0, 2, 3, 1]), 3).is_some());
        assert!(in_rows(&planes.permuted(&[0, 3, 2, 1]), 3).is_none());
    }
}
