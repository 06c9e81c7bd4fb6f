//! Images and window of a depthwise convolution as kernels see them that compute a band of rows from a channels-last image.

use crate::View;
use crate::codegen::Target;
use crate::conv;
use crate::gemm::spatial;

/// Threads of a multiprocessor for which kernels bound registers: to 128 for each.
pub(crate) const RESIDENT: u32 = 512;

/// How often a multiprocessor that computes so many blocks starts as many as it has room for, by the shared memory and the registers
/// of one.
pub(crate) fn waves(blocks: f64, shared: u64, registers: f64, target: &Target) -> f64 {
    let room = (f64::from(target.shared_per_multiprocessor) / shared as f64).min(65536.0 / registers);
    (blocks / room.floor().max(1.0)).ceil()
}

/// Extents and strides, checked.
pub(crate) struct Geometry {
    /// Number of images.
    pub images: u32,
    /// Channels that exist in memory: of the wide image.
    pub padded_channels: u32,
    /// Those of the image that the expansion reads; 0 without an expansion.
    pub depth: u32,
    /// Rows and columns that the depthwise convolution reads.
    pub input: [u32; 2],
    /// Rows and columns that it writes.
    pub output: [u32; 2],
    /// Taps, steps, dilations and padding along rows and columns.
    pub taps: [u32; 2],
    pub steps: [u32; 2],
    pub dilations: [u32; 2],
    pub pads: [u32; 2],
    /// Elements from one pixel of the image to the next.
    pub pixel: i64,
}

impl Geometry {
    /// The geometry of a depthwise convolution for kernels that read `image`, of which an expansion makes the wide one if it
    /// `expands`, and that read and write `multiple` channels at once.
    ///
    /// # Errors
    /// What the operands are that such kernels do not take, to be said of a convolution.
    pub(crate) fn of(image: &View, expands: bool, depthwise: &conv::Geometry, multiple: u32) -> Result<Self, String> {
        let conv::Geometry { input: wide, weights, output, .. } = depthwise;
        let padded_channels = |view: &View| view.padded_channels.max(view.shape[1]);
        for view in [image, output] {
            let whole = |d: usize| d == 1 || view.shape[d] == 1 || view.strides[d] % multiple as i32 == 0;
            let aligned = padded_channels(view).is_multiple_of(multiple) && view.offset.is_multiple_of(multiple);
            if view.strides[1] != 1 || !aligned || !(0..view.rank()).all(whole) {
                return Err(format!("of images that are not channels-last in multiples of {multiple}"));
            }
        }
        if !expands && padded_channels(image) < padded_channels(output) {
            return Err("with fewer channels in memory than it writes".into());
        }
        let [(of_image, strides), (of_wide, _), (of_output, _), (taps, _)] =
            [image, wide, output, weights].map(spatial);
        if of_output[0] != 1 || of_wide[0] != 1 || taps[0] != 1 || of_image != of_wide {
            return Err("in three spatial dimensions".into());
        }
        if of_wide[1] > 1 && strides[1] != strides[2] * i64::from(of_wide[2]) {
            return Err("of an image with gaps between its rows".into());
        }
        let two = |all: [u32; 3]| [all[1], all[2]];
        Ok(Self {
            images: output.shape[0],
            padded_channels: padded_channels(output),
            depth: if expands { padded_channels(image) } else { 0 },
            input: two(of_wide),
            output: two(of_output),
            taps: two(taps),
            steps: two(depthwise.strides),
            dilations: two(depthwise.dilations),
            pads: two(depthwise.pads),
            pixel: strides[2],
        })
    }

    /// Rows of outputs that bands may have: equal parts of all of them, and few.
    pub(crate) fn heights(&self) -> Vec<u32> {
        let mut heights: Vec<u32> = (1..=16).map(|parts| self.output[0].div_ceil(parts)).collect();
        heights.extend([1, 2, 4]);
        heights.retain(|&rows| rows <= self.output[0]);
        heights.sort_unstable();
        heights.dedup();
        heights
    }

    /// The mean over bands of so many rows of outputs, of which each reads `reach` rows, of what `of` makes of the rows that are in the
    /// image and of those of outputs: bands at the border have fewer.
    pub(crate) fn mean_of_bands(&self, rows: u32, reach: u32, of: impl Fn([u32; 2]) -> f64) -> f64 {
        let bands = self.output[0].div_ceil(rows);
        let of_band = |band: u32| {
            let [top, pad] = [band * rows * self.steps[0], self.pads[0]];
            let read = (top + reach).min(self.input[0] + pad).saturating_sub(top.max(pad));
            of([read, (self.output[0] - band * rows).min(rows)])
        };
        (0..bands).map(of_band).sum::<f64>() / f64::from(bands)
    }

    /// Constants of the sources: extents and window.
    pub(crate) fn window(&self) -> [(&'static str, i64); 10] {
        [
            ("DEPTH", self.depth),
            ("IN_ROWS", self.input[0]),
            ("IN_COLUMNS", self.input[1]),
            ("OUT_ROWS", self.output[0]),
            ("OUT_COLUMNS", self.output[1]),
            ("TAPS_H", self.taps[0]),
            ("TAPS_W", self.taps[1]),
            ("STEP_H", self.steps[0]),
            ("STEP_W", self.steps[1]),
            ("DILATION_H", self.dilations[0]),
        ]
        .map(|(name, value)| (name, value.into()))
    }

    /// Constants of the sources: padding, and where the image and the output lie.
    pub(crate) fn places(&self, image: &View, output: &View) -> [(&'static str, i64); 9] {
        let (_, strides) = spatial(output);
        [
            ("PAD_H", self.pads[0].into()),
            ("PAD_W", self.pads[1].into()),
            ("PIXEL", self.pixel),
            ("IMAGE", image.strides[0].into()),
            ("IMAGE_OFFSET", image.offset.into()),
            ("OUT_OFFSET", output.offset.into()),
            ("OUT_IMAGE", output.strides[0].into()),
            ("OUT_LINE", strides[1]),
            ("OUT_PIXEL", strides[2]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_at_the_border_have_fewer_rows() {
        let shape = Geometry {
            images: 1,
            padded_channels: 16,
            depth: 16,
            input: [7, 7],
            output: [7, 7],
            taps: [3, 3],
            steps: [1, 1],
            dilations: [1, 1],
            pads: [1, 1],
            pixel: 16,
        };
        // Rows -1 to 4 for four rows of outputs, rows 3 to 8 for three.
        assert_eq!(shape.mean_of_bands(4, 6, |[read, _]| f64::from(read)), 4.5);
        assert_eq!(shape.mean_of_bands(4, 6, |[_, rows]| f64::from(rows)), 3.5);
        assert_eq!(shape.mean_of_bands(7, 9, |rows| f64::from(rows[0] * 10 + rows[1])), 77.0);
    }
}
