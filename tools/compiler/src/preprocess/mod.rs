//! Camera-shaped input: a network's input becomes the frame of a camera, and the first step of the plan makes the tensor.

mod language;
#[cfg(test)]
mod tests;

pub use language::HELP;

use floe_engine::plan::content::{Content, FrameContent};
use floe_models::{
    DType, Fact, Graph, Node, Op, Origin, Source, TensorId,
    op::{Channels, Frame, PixelFormat, Region, Resampling, VideoLayout},
};

/// What [`parse`](Preprocess::parse) reads: a frame and what becomes of it. The network's input settles the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocess {
    /// The network's input.
    pub input: String,
    /// Pixels of the frame.
    pub format: PixelFormat,
    /// Width of the frame.
    pub width: usize,
    /// Height of the frame.
    pub height: usize,
    /// Bytes of a row of the frame where that is more than its pixels have.
    pub stride: Option<usize>,
    /// What is taken from the frame; all of it by default.
    pub crop: Option<Region>,
    /// How the crop becomes as large as the network wants it.
    pub fit: Fit,
    /// Filter.
    pub resampling: Resampling,
    /// Channels of the network's input; by default as many as it has, red first.
    pub channels: Option<Channels>,
    /// What stands beside a letterboxed image, between 0 and 255.
    pub padding: Vec<f32>,
    /// What 0 and 255 become before mean and deviation apply.
    pub range: (f64, f64),
    /// Subtracted, by channel of the network.
    pub mean: Vec<f64>,
    /// Divides, by channel of the network.
    pub deviation: Vec<f64>,
    /// Order of the dimensions of the network's input where its extents do not tell.
    pub layout: Option<ImageLayout>,
}

/// How an image of one size fills another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Each dimension by itself.
    Stretch,
    /// As large as fits, both dimensions alike; padding beside it.
    Letterbox {
        /// Whether the padding is all at the right or the bottom.
        top_left: bool,
    },
    /// Both dimensions alike until it covers everything or the shorter side has `shorter` pixels; the centre remains.
    Cover {
        /// Pixels of the shorter side; `None` for as many as cover the network's input.
        shorter: Option<usize>,
    },
}

/// Order of the dimensions of an image in a tensor; the batch may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageLayout {
    /// Channels, height, width.
    Nchw,
    /// Height, width, channels.
    Nhwc,
}

/// Why a frame cannot become a network's input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--preprocess '{option}': {reason}")]
pub struct PreprocessError {
    /// The option as given.
    pub option: String,
    /// What is wrong.
    pub reason: String,
}

/// Where the frame lies on the network's input, for results that speak of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// What is taken from the frame.
    pub crop: Region,
    /// Where it appears on the network's input.
    pub window: Region,
    /// Height and width of the network's input.
    pub extents: [usize; 2],
}

impl Placement {
    /// Factor and summand of the row and of the column that turn places on the network's input (in pixels, 0 at the outer
    /// edge) into places on the frame.
    pub fn to_frame(self) -> [(f64, f64); 2] {
        let axis = |source: u32, target: u32, origin: i32, start: i32| {
            let factor = f64::from(source) / f64::from(target);
            (factor, f64::from(origin) - f64::from(start) * factor)
        };
        [
            axis(self.crop.height, self.window.height, self.crop.top, self.window.top),
            axis(self.crop.width, self.window.width, self.crop.left, self.window.left),
        ]
    }
}

/// A rectangle, if it is no larger than one can be.
fn region([top, left]: [i32; 2], [height, width]: [usize; 2]) -> Option<Region> {
    Some(Region { top, left, height: height.try_into().ok()?, width: width.try_into().ok()? })
}

impl Fit {
    /// Where an image of `source` = height, width appears on one of `target`.
    fn window(self, source: [usize; 2], target: [usize; 2]) -> Option<Region> {
        let ratio = |d: usize| target[d] as f64 / source[d] as f64;
        let centre = |extents: [usize; 2]| {
            let before = |d: usize| (target[d] as i64 - extents[d] as i64).div_euclid(2) as i32;
            region([before(0), before(1)], extents)
        };
        let scaled = |factor: f64| source.map(|extent| ((extent as f64 * factor).round() as usize).max(1));
        match self {
            Self::Stretch => region([0, 0], target),
            Self::Letterbox { top_left } => {
                let extents = scaled(ratio(0).min(ratio(1)));
                if top_left { region([0, 0], extents) } else { centre(extents) }
            }
            Self::Cover { shorter: None } => centre(scaled(ratio(0).max(ratio(1)))),
            Self::Cover { shorter: Some(pixels) } => {
                // As torchvision's Resize and CenterCrop: the longer side is rounded down, halves of a pixel to even.
                let short = source[0].min(source[1]);
                let extents = source.map(|extent| if extent == short { pixels } else { pixels * extent / short });
                let before = |d: usize| ((extents[d] as f64 - target[d] as f64) / 2.0).round_ties_even() as i32;
                region([-before(0), -before(1)], extents)
            }
        }
    }
}

impl Preprocess {
    fn error(&self, reason: impl Into<String>) -> PreprocessError {
        PreprocessError { option: self.input.clone(), reason: reason.into() }
    }

    /// Replaces the input of the graph by a frame of bytes under the same name; tells where the frame appears on it.
    ///
    /// # Errors
    /// Where the graph has no such input, or it is no image that the frame can become.
    pub fn apply(&self, graph: &mut Graph) -> Result<Placement, PreprocessError> {
        let position = graph.inputs.iter().position(|id| graph.value(*id).name == self.input).ok_or_else(|| {
            let names = graph.inputs.iter().map(|id| graph.value(*id).name.as_str()).collect::<Vec<_>>().join(", ");
            self.error(format!("the model has no input '{}', only {names}", self.input))
        })?;
        let tensor = graph.inputs[position];
        let fact = graph.fact(tensor).clone();
        if !matches!(fact.dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::U8) {
            return Err(self.error(format!("the input is {:?}, not F32, F16, BF16 or U8", fact.dtype)));
        }
        let (layout, [n, channels, height, width]) = self.image(&fact)?;
        let order = self.channels(channels)?;
        let too_large = || self.error("an extent exceeds 32 bits");
        let crop = self.crop.or_else(|| region([0, 0], [self.height, self.width])).ok_or_else(too_large)?;
        let taken = [crop.height as usize, crop.width as usize];
        let window = self.fit.window(taken, [height, width]).ok_or_else(too_large)?;
        let [padding, mean, deviation] = [
            self.by_channel("pad", &self.padding.iter().map(|&x| x.into()).collect::<Vec<_>>(), channels)?,
            self.by_channel("mean", &self.mean, channels)?,
            self.by_channel("std", &self.deviation, channels)?,
        ];
        let (low, high) = self.range;
        let scale: [f64; 4] = std::array::from_fn(|c| (high - low) / 255.0 / deviation[c]);
        let shift: [f64; 4] = std::array::from_fn(|c| (low - mean[c]) / deviation[c]);
        let frame = Frame {
            format: self.format,
            channels: order,
            crop,
            window,
            resampling: self.resampling,
            padding: padding.map(|x| x as f32),
            scale: scale.map(|x| x as f32),
            shift: shift.map(|x| x as f32),
        };
        graph.values[tensor.0].name = format!("{} as a tensor", self.input);
        graph.inputs[position] = self.insert(graph, frame, tensor, layout, [n, channels, height, width]);
        let placement = Placement { crop, window, extents: [height, width] };
        graph.contents.inputs.insert(self.input.clone(), self.content(placement)?);
        Ok(placement)
    }

    /// What the plan says of the frame.
    fn content(
        &self,
        Placement { crop, window, extents: [height, width] }: Placement,
    ) -> Result<String, PreprocessError> {
        let narrow =
            |extent: usize| u32::try_from(extent).map_err(|_| self.error(format!("an extent of {extent} pixels")));
        let frame = FrameContent {
            format: self.format,
            size: [narrow(self.width)?, narrow(self.height)?],
            stride: narrow(self.row_bytes())?,
            crop,
            window,
            network: [narrow(width)?, narrow(height)?],
        };
        Ok(Content::Frame(frame).to_string())
    }

    /// Bytes from one row to the next.
    fn row_bytes(&self) -> usize {
        self.stride.unwrap_or(self.width * self.format.bytes_per_pixel() as usize)
    }

    /// Order and extents (batch, channels, height, width) of the network's input.
    fn image(&self, fact: &Fact) -> Result<(ImageLayout, [usize; 4]), PreprocessError> {
        let (n, extents) = match *fact.shape.as_slice() {
            [n, a, b, c] => (n, [a, b, c]),
            [a, b, c] => (1, [a, b, c]),
            _ => return Err(self.error(format!("the input {:?} is no image of rank 3 or 4", fact.shape))),
        };
        let counts = |channels: usize| matches!(channels, 1 | 3 | 4);
        let layout = match self.layout {
            Some(layout) => layout,
            None if counts(extents[0]) => ImageLayout::Nchw,
            None => ImageLayout::Nhwc,
        };
        let [channels, height, width] = match layout {
            ImageLayout::Nchw => extents,
            ImageLayout::Nhwc => [extents[2], extents[0], extents[1]],
        };
        if !counts(channels) {
            return Err(self.error(format!("the input {:?} has {channels} channels, not 1, 3 or 4", fact.shape)));
        }
        if n == 0 || height == 0 || width == 0 {
            return Err(self.error(format!("the input {:?} is empty", fact.shape)));
        }
        Ok((layout, [n, channels, height, width]))
    }

    fn channels(&self, count: usize) -> Result<Channels, PreprocessError> {
        let order = self.channels.unwrap_or(match count {
            1 => Channels::Gray,
            3 => Channels::Rgb,
            _ => Channels::Rgba,
        });
        if order.count() as usize != count {
            return Err(self.error(format!("{order:?} has {} channels, the network's input {count}", order.count())));
        }
        Ok(order)
    }

    /// One value for each channel of the network, or a single one for all.
    fn by_channel(&self, option: &str, values: &[f64], channels: usize) -> Result<[f64; 4], PreprocessError> {
        match values {
            [value] => Ok([*value; 4]),
            values if values.len() == channels => Ok(std::array::from_fn(|c| values.get(c).copied().unwrap_or(1.0))),
            values => {
                Err(self
                    .error(format!("{option} has {} values, the network's input {channels} channels", values.len())))
            }
        }
    }

    /// Adds the frame's binding and the nodes that make `tensor` of it; the binding.
    fn insert(
        &self,
        graph: &mut Graph,
        frame: Frame,
        tensor: TensorId,
        layout: ImageLayout,
        [n, channels, height, width]: [usize; 4],
    ) -> TensorId {
        let (rows, bytes) = (self.format.rows(self.height), self.width * self.format.bytes_per_pixel() as usize);
        let stride = self.row_bytes();
        // A camera's frame in the shape that programs hold it in.
        let mut shape = match self.format {
            PixelFormat::Packed(order) if self.stride.is_none() && order != Channels::Gray => {
                vec![rows, self.width, order.count() as usize]
            }
            _ => vec![rows, stride],
        };
        if n > 1 {
            shape.insert(0, n);
        }
        let binding = graph.add_value(self.input.clone(), Fact::new(DType::U8, &shape));
        let dtype = graph.fact(tensor).dtype;
        let mut made = Vec::new();
        let mut node = |graph: &mut Graph, op: Op, input: TensorId, fact: Fact, to: Option<TensorId>| {
            let name = format!("preprocess:{}{}", self.input, if made.is_empty() { "" } else { "/" });
            let name = if made.is_empty() { name } else { format!("{name}{}", made.len()) };
            let output = to.unwrap_or_else(|| graph.add_value(format!("{} in {name}", self.input), fact));
            let sources = vec![Source { name: format!("preprocess:{}", self.input), origin: Origin::Preprocess }];
            made.push(Node { name, op, inputs: vec![input], outputs: vec![output], sources });
            output
        };
        let image = Fact::new(dtype, &[n, channels, height, width]);
        let mut from = node(graph, Op::Reshape, binding, Fact::new(DType::U8, &[n, rows, stride]), None);
        // Planes of chroma lie in rows of half the stride, which goes on where luma ends; the crop leaves out what is behind the pixels.
        let whole = matches!(self.format, PixelFormat::Video { layout: VideoLayout::I420, .. });
        if stride != bytes && !whole {
            let slice = Op::Slice { starts: vec![0; 3], steps: vec![1; 3] };
            from = node(graph, slice, from, Fact::new(DType::U8, &[n, rows, bytes]), None);
        }
        let wanted = graph.fact(tensor).clone();
        let op = Op::Frame(Box::new(frame));
        match (layout, wanted.shape == image.shape) {
            (ImageLayout::Nchw, true) => {
                node(graph, op, from, image, Some(tensor));
            }
            (ImageLayout::Nchw, false) => {
                let framed = node(graph, op, from, image, None);
                node(graph, Op::Reshape, framed, wanted, Some(tensor));
            }
            (ImageLayout::Nhwc, _) => {
                let framed = node(graph, op, from, image, None);
                let turn = Op::Transpose { permutation: vec![0, 2, 3, 1] };
                let turned = Fact::new(dtype, &[n, height, width, channels]);
                if turned == wanted {
                    node(graph, turn, framed, turned, Some(tensor));
                } else {
                    let turned = node(graph, turn, framed, turned, None);
                    node(graph, Op::Reshape, turned, wanted, Some(tensor));
                }
            }
        }
        graph.nodes.splice(0..0, made);
        binding
    }
}
