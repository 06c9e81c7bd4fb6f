//! Reference kernel: for each row of the output the weighted sum of the rows of pixels that it is made of, then columns.

use super::pixels::{Conversion, LUMA, code, demosaic};
use super::taps::Axis;
use super::{Channels, Frame, MAX_EXTENT, Mosaic, PixelFormat, Region, VideoLayout};
use crate::host::{Element, cast_mut, check_operands, clear_padding, with_plain};
use crate::strided::{Real, check_view};
use crate::{DType, Family, KernelError, View};

/// Channels of a pixel while it is resampled.
type Pixel = [f32; 4];

impl Frame {
    /// Whether Cb and Cr have planes of their own.
    pub(super) fn has_separate_chroma(&self) -> bool {
        matches!(self.format, PixelFormat::Video { layout: VideoLayout::I420, .. })
    }

    fn check_regions(&self) -> Result<(), KernelError> {
        let positive =
            |region: &Region| (1..=MAX_EXTENT).contains(&region.height) && (1..=MAX_EXTENT).contains(&region.width);
        if !positive(&self.crop) || !positive(&self.window) {
            return Err(KernelError::Parameter("extents of the crop or the window"));
        }
        let within =
            |first: i32, extent: u32, whole: u32| first >= 0 && first as u32 <= whole && extent <= whole - first as u32;
        let (height, width) = (self.height(), self.width());
        if !within(self.crop.top, self.crop.height, height) || !within(self.crop.left, self.crop.width, width) {
            return Err(KernelError::Parameter("the crop leaves the frame"));
        }
        let limit = MAX_EXTENT as i32;
        if !(-limit..=limit).contains(&self.window.top) || !(-limit..=limit).contains(&self.window.left) {
            return Err(KernelError::Parameter("place of the window"));
        }
        Ok(())
    }
}

impl Family for Frame {
    fn check(&self) -> Result<(), KernelError> {
        check_view(&self.frame)?;
        check_view(&self.output)?;
        let (&[frames, rows, bytes], &[n, channels, height, width]) =
            (self.frame.shape.as_slice(), self.output.shape.as_slice())
        else {
            return Err(KernelError::Shape("ranks of frame and output"));
        };
        if self.frame.dtype != DType::U8 {
            return Err(KernelError::Type("frame"));
        }
        if !matches!(self.output.dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::U8) {
            return Err(KernelError::Type("output"));
        }
        if frames != n || channels != self.channels.count() {
            return Err(KernelError::Shape("batch and channels"));
        }
        if rows > 2 * MAX_EXTENT || bytes > 4 * MAX_EXTENT || height > MAX_EXTENT || width > MAX_EXTENT {
            return Err(KernelError::Shape("an extent above 16384"));
        }
        let pixel = self.format.bytes_per_pixel();
        let known = !matches!(self.format, PixelFormat::Bayer { bits, .. } if !matches!(bits, 8 | 10 | 12));
        let [across, down] = self.format.block().map(|extent| extent as u32);
        let whole = bytes % (pixel * across) == 0 && rows % (self.format.rows(down as usize) as u32) == 0;
        if !known || !whole || self.height() > MAX_EXTENT || self.width() > MAX_EXTENT {
            return Err(KernelError::Shape("rows and bytes of the frame"));
        }
        // Planes of chroma go on where those of luma end.
        let apart = self.has_separate_chroma() && rows > 1 && i64::from(self.frame.strides[1]) != i64::from(bytes);
        if apart {
            return Err(KernelError::Shape("rows of I420 lie apart"));
        }
        if self.frame.strides[2] != 1 || self.frame.padded_channels != 0 {
            return Err(KernelError::Shape("bytes of a row lie apart"));
        }
        self.check_regions()?;
        let numbers = self.padding.iter().chain(&self.scale).chain(&self.shift);
        if numbers.into_iter().any(|&x| !Real::is_finite(x)) {
            return Err(KernelError::Parameter("padding, scale or shift"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.frame)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    /// A pixel for each column of the crop.
    fn host_workspace(&self) -> u64 {
        u64::from(self.crop.width) * size_of::<Pixel>() as u64
    }

    fn flops(&self) -> u64 {
        // Two taps along each dimension, two conversions' worth of arithmetic a tap: a rough figure is all there is.
        self.output.elements().saturating_mul(16)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([frame], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.elements() == 0 {
            return Ok(());
        }
        let sums = cast_mut::<Pixel>(workspace, 2)?;
        let sums = sums.get_mut(..self.crop.width as usize).ok_or(KernelError::OperandTooShort(2))?;
        with_plain!(self.output.dtype, T => self.images::<T>(frame, cast_mut(output, 1)?, sums));
        clear_padding(&self.output, output);
        Ok(())
    }
}

/// A float, or a rounded byte.
fn narrow<T: Element>(dtype: DType, value: f32) -> T {
    T::from_f32(if dtype == DType::U8 { libm::rintf(value) } else { value })
}

impl Frame {
    fn images<T: Element>(&self, frame: &[u8], output: &mut [T], sums: &mut [Pixel]) {
        let [rows, columns] = self.axes();
        let sources = self.sources();
        let finish = |c: usize, value: f32| narrow::<T>(self.output.dtype, value * self.scale[c] + self.shift[c]);
        let padding: [T; 4] = core::array::from_fn(|c| finish(c, self.padding[c]));
        let place = |n: u32, c: u32, y: u32, x: u32| {
            let index = [n, c, y, x];
            let steps = index.iter().zip(&self.output.strides).map(|(&i, &stride)| i64::from(i) * i64::from(stride));
            (i64::from(self.output.offset) + steps.sum::<i64>()) as usize
        };
        let [batch, channels, height, width] = [0, 1, 2, 3].map(|d| self.output.shape[d]);
        for n in 0..batch {
            for y in 0..height {
                let row = y as i32 - self.window.top;
                let inside = (0..rows.target).contains(&row);
                if inside {
                    self.sum_rows(frame, n, row, rows, sums);
                }
                for x in 0..width {
                    let column = x as i32 - self.window.left;
                    let pixel = (inside && (0..columns.target).contains(&column)).then(|| sum(sums, column, columns));
                    for c in 0..channels {
                        let value = match (pixel, sources[c as usize]) {
                            (None, _) => padding[c as usize],
                            (Some(_), None) => finish(c as usize, 255.0),
                            (Some(pixel), Some(source)) => finish(c as usize, pixel[source]),
                        };
                        output[place(n, c, y, x)] = value;
                    }
                }
            }
        }
    }

    /// The weighted sum of the rows of the crop that row `i` of the window is made of.
    fn sum_rows(&self, frame: &[u8], n: u32, i: i32, rows: Axis, sums: &mut [Pixel]) {
        sums.fill([0.0; 4]);
        let taps = rows.taps(i);
        let total = rows.total(i) as f32;
        let row = |number: i32| {
            let start = i64::from(self.frame.offset)
                + i64::from(n) * i64::from(self.frame.strides[0])
                + i64::from(number) * i64::from(self.frame.strides[1]);
            &frame[start as usize..start as usize + self.frame.shape[2] as usize]
        };
        for source in taps.first..=taps.last {
            let weight = rows.weight(i, source) as f32 / total;
            let y = self.crop.top + source;
            let left = self.crop.left as usize;
            match self.format {
                PixelFormat::Packed(channels) => {
                    let count = channels.count() as usize;
                    self.sum_packed(channels, weight, &row(y)[left * count..], sums);
                }
                PixelFormat::Video { layout, matrix, full_range } => {
                    let conversion = Conversion::new(layout, matrix, full_range);
                    self.sum_video(layout, &conversion, weight, y, &row, sums);
                }
                PixelFormat::Bayer { mosaic, bits } => {
                    // Mirrored: the row beyond the first is the second.
                    let last = self.height() as i32 - 1;
                    let below = if y == last { y - 1 } else { y + 1 };
                    let bytes = [row((y - 1).abs()), row(y), row(below)];
                    self.sum_bayer((mosaic, bits), weight, y as usize, bytes, sums);
                }
            }
        }
    }

    fn sum_video<'a>(
        &self,
        layout: VideoLayout,
        conversion: &Conversion,
        weight: f32,
        y: i32,
        row: &impl Fn(i32) -> &'a [u8],
        sums: &mut [Pixel],
    ) {
        let (luma, places) = (row(y), layout.places());
        let columns = self.crop.left as usize..;
        let luma = |x: usize| code(&luma[places.luma + x * places.step..][..places.bytes]);
        if self.channels == Channels::Gray {
            for (x, sum) in columns.zip(sums) {
                sum[0] += weight * conversion.gray(luma(x));
            }
            return;
        }
        let height = self.height() as i32;
        let [cb, cr] = if self.has_separate_chroma() {
            // Two rows of chroma in one of luma's length.
            let half = self.frame.shape[2] as usize / 2;
            [y / 2, height / 2 + y / 2]
                .map(|plane_row| &row(height + plane_row / 2)[plane_row as usize % 2 * half..][..half])
        } else if layout.has_planes() {
            [row(height + y / 2); 2]
        } else {
            [row(y); 2]
        };
        for (x, sum) in columns.zip(sums) {
            let pair = x / 2 * places.pair;
            let [cb, cr] =
                [&cb[pair + places.cb..], &cr[pair + places.cr..]].map(|sample| code(&sample[..places.bytes]));
            for (sum, value) in sum.iter_mut().zip(conversion.colour(luma(x), [cb, cr])) {
                *sum += weight * value;
            }
        }
    }

    fn sum_bayer(&self, (mosaic, bits): (Mosaic, u8), weight: f32, y: usize, rows: [&[u8]; 3], sums: &mut [Pixel]) {
        let last = self.width() as usize - 1;
        let scale = 255.0 / ((1u32 << bits) - 1) as f32;
        let site = |row: usize, x: usize| match bits {
            8 => f32::from(rows[row][x]),
            _ => f32::from(u16::from_le_bytes([rows[row][2 * x], rows[row][2 * x + 1]])),
        };
        for (x, sum) in (self.crop.left as usize..).zip(sums) {
            let column = |dx: i32| match dx {
                0 => x,
                1 if x < last => x + 1,
                -1 if x == 0 => 1,
                _ => x - 1,
            };
            let colours = demosaic(mosaic, y, x, |dy, dx| site((1 + dy) as usize, column(dx)));
            let colours = colours.map(|colour| (scale * colour).min(255.0));
            if self.channels == Channels::Gray {
                sum[0] += weight * colours.iter().zip(LUMA).map(|(colour, factor)| factor * colour).sum::<f32>();
                continue;
            }
            for (sum, colour) in sum.iter_mut().zip(colours) {
                *sum += weight * colour;
            }
        }
    }

    fn sum_packed(&self, channels: Channels, weight: f32, bytes: &[u8], sums: &mut [Pixel]) {
        let order = channels.order();
        let luma = self.channels == Channels::Gray && channels != Channels::Gray;
        for (sum, pixel) in sums.iter_mut().zip(bytes.chunks_exact(channels.count() as usize)) {
            if luma {
                let gray: f32 = pixel.iter().zip(order).take(3).map(|(&x, c)| LUMA[c] * f32::from(x)).sum();
                sum[0] += weight * gray;
            } else {
                for (&x, c) in pixel.iter().zip(order) {
                    sum[c] += weight * f32::from(x);
                }
            }
        }
    }
}

/// The weighted sum of the columns that column `i` of the window is made of.
fn sum(row: &[Pixel], i: i32, columns: Axis) -> Pixel {
    let taps = columns.taps(i);
    let mut result = [0.0; 4];
    let mut total = 0;
    for (x, pixel) in (taps.first..=taps.last).zip(&row[taps.first as usize..]) {
        let weight = columns.weight(i, x);
        total += weight;
        for (result, value) in result.iter_mut().zip(pixel) {
            *result += weight as f32 * value;
        }
    }
    result.map(|value| value / total as f32)
}
