//! What operators are, for whoever reasons about graphs without caring which operator it is. One row an operator: a new one does
//! not compile before it has said all of it.

use super::{Interpolation, Op, Outside, PadMode, Pooling, Reduction, RegionPooling, Sampling, ScatterReduction};

/// What an operator is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Properties {
    /// Where the elements of the outputs come from.
    pub elements: Elements,
    /// The inputs that these are made of. The others say where and how: indices, lengths, places, masks.
    pub data: Inputs,
    /// A number that stands beside them.
    pub number: Option<f64>,
    /// How large the outputs are, by how large the data is.
    pub size: Size,
    /// Inputs that must not be rounded: places, and numbers that decide.
    pub exact: Inputs,
    /// Inputs that are boxes.
    pub boxes: Inputs,
    /// Whether it reads a slice of the data's last dimension, or of an image's channels, where it lies, and is never part of
    /// what made it.
    pub reads_slices: bool,
    /// The memory layout in which images are read and written.
    pub layout: ImageLayout,
    /// Whether it does the same to quantised integers as to the numbers that they stand for, and has a kernel for both.
    pub moves_quantised: bool,
    /// Whether images of 8-bit integers go through it channels last, as they leave quantised convolutions.
    pub integer_images: bool,
    /// Whether it takes elements of the narrow types, which most only convert and move.
    pub takes_narrow: bool,
}

/// Where the elements of an operator's outputs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// From the data, unchanged, in places that strides can tell: nothing has to be copied.
    View,
    /// From the data, the same bits as another type.
    Bits,
    /// From the data, unchanged, in other places, more than once, or beside a number that the operator names.
    Moved,
    /// From the data, unchanged, chosen by their values.
    Chosen,
    /// Each from the elements of the data in its place.
    EachAlone,
    /// Each from many elements, or from none.
    Computed,
}

/// Some inputs of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// All of them.
    All,
    /// The first so many.
    First(usize),
    /// These.
    At(&'static [usize]),
    /// Those whose bits are set.
    Mask(u32),
}

/// How large the outputs of an operator are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Between the smallest and the largest element of the data, and 0.
    OfData,
    /// In proportion to the data, on either side of 0.
    Proportional,
    /// As that, and the larger the more elements are added or multiplied.
    Accumulated,
    /// As the function says that is applied to each element.
    OfFunction,
    /// The data's size is divided out.
    Normalised,
    /// A logarithm of the data: its digits come from the data's exponent.
    Logarithm,
    /// Of its own, whatever the data is: probabilities, activations, indices.
    Own,
}

/// The memory layout in which an operator reads and writes images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageLayout {
    /// Channels last on a GPU, whatever its neighbours do.
    ChannelsLast,
    /// That of its inputs, or what all its readers want.
    OfInputs,
    /// That of its input, on which its outputs are windows.
    Window,
    /// What its readers want.
    OfReaders,
    /// Row-major.
    RowMajor,
}

impl Inputs {
    /// None.
    pub const NONE: Self = Self::At(&[]);

    /// These inputs of a node.
    pub fn of<'a, T>(self, inputs: &'a [T]) -> impl Iterator<Item = &'a T> + use<'a, T> {
        inputs.iter().enumerate().filter(move |&(number, _)| self.contains(number)).map(|(_, input)| input)
    }

    /// Whether an input is one of them.
    pub fn contains(self, number: usize) -> bool {
        match self {
            Self::All => true,
            Self::First(count) => number < count,
            Self::At(numbers) => numbers.contains(&number),
            Self::Mask(bits) => number < u32::BITS as usize && bits >> number & 1 == 1,
        }
    }
}

impl Properties {
    /// Whether every element of the outputs is one of the data, or a number that the operator names.
    pub fn moves(&self) -> bool {
        match self.elements {
            Elements::View | Elements::Moved => true,
            Elements::Bits | Elements::Chosen | Elements::EachAlone | Elements::Computed => false,
        }
    }

    /// Whether lowering makes the outputs by other strides over the data.
    pub fn is_view(&self) -> bool {
        match self.elements {
            Elements::View | Elements::Bits => true,
            Elements::Moved | Elements::Chosen | Elements::EachAlone | Elements::Computed => false,
        }
    }
}

/// Another view of one input.
const VIEW: Properties = Properties {
    elements: Elements::View,
    data: Inputs::First(1),
    number: None,
    size: Size::OfData,
    exact: Inputs::NONE,
    boxes: Inputs::NONE,
    reads_slices: true,
    layout: ImageLayout::RowMajor,
    moves_quantised: false,
    integer_images: false,
    takes_narrow: true,
};
const MOVED: Properties = Properties { elements: Elements::Moved, reads_slices: false, ..VIEW };
/// Moved by kernels that have no narrow types.
const MOVED_WIDE: Properties = Properties { takes_narrow: false, ..MOVED };
const EACH: Properties = Properties {
    elements: Elements::EachAlone,
    data: Inputs::All,
    size: Size::OfFunction,
    takes_narrow: false,
    ..MOVED
};
/// A sum of products, say.
const PROPORTIONAL: Properties = Properties { elements: Elements::Computed, size: Size::Proportional, ..EACH };
/// Sums over a dimension.
const ACCUMULATED: Properties = Properties { data: Inputs::First(1), size: Size::Accumulated, ..PROPORTIONAL };
const NORMALISED: Properties = Properties { data: Inputs::First(1), size: Size::Normalised, ..PROPORTIONAL };
/// Numbers of its own.
const OWN: Properties = Properties { data: Inputs::First(1), size: Size::Own, ..PROPORTIONAL };

/// With elements that are chosen, where they are, or else averages.
const fn pooled(chosen: bool, layout: ImageLayout) -> Properties {
    let elements = if chosen { Elements::Chosen } else { Elements::Computed };
    Properties { elements, size: Size::OfData, data: Inputs::First(1), layout, ..PROPORTIONAL }
}

const fn images(properties: Properties) -> Properties {
    Properties { layout: ImageLayout::ChannelsLast, ..properties }
}

impl Op {
    /// What the operator is.
    pub fn properties(&self) -> Properties {
        use ImageLayout::{ChannelsLast, OfInputs, OfReaders, RowMajor, Window};
        match self {
            Self::Conv { .. } | Self::ConvTranspose { .. } => Properties { reads_slices: true, ..images(PROPORTIONAL) },
            Self::QuantizedConv { .. } => {
                Properties { integer_images: true, takes_narrow: true, ..images(PROPORTIONAL) }
            }
            Self::Lrn { .. } => images(PROPORTIONAL),
            Self::ConvInteger { .. }
            | Self::MatMul
            | Self::Gemm { .. }
            | Self::PackedMatMul { .. }
            | Self::BatchNormalization { .. }
            | Self::Determinant => PROPORTIONAL,
            Self::QuantizedMatMul => Properties { takes_narrow: true, ..PROPORTIONAL },
            Self::Cumulative { .. } => ACCUMULATED,
            Self::LayerNormalization { .. } => NORMALISED,
            Self::InstanceNormalization { .. } | Self::GroupNormalization { .. } => images(NORMALISED),
            Self::Unary(_) | Self::Composite(_) | Self::Binary(_) | Self::PRelu => EACH,
            Self::Where => Properties { data: Inputs::At(&[1, 2]), size: Size::OfData, ..EACH },
            Self::Cast => {
                Properties { size: Size::OfData, layout: OfInputs, integer_images: true, takes_narrow: true, ..EACH }
            }
            Self::Pool { kind, .. } => {
                let moves_quantised = *kind == Pooling::Max;
                let pooled = pooled(*kind == Pooling::Max, ChannelsLast);
                Properties { reads_slices: true, moves_quantised, integer_images: true, ..pooled }
            }
            Self::GlobalPool { kind } => {
                Properties { reads_slices: true, ..pooled(*kind == Pooling::Max, ChannelsLast) }
            }
            Self::Concat { .. } => {
                Properties { data: Inputs::All, layout: OfInputs, moves_quantised: true, integer_images: true, ..MOVED }
            }
            Self::Split { .. } | Self::Slice { .. } => {
                Properties { layout: Window, moves_quantised: true, integer_images: true, ..VIEW }
            }
            Self::Identity => Properties { layout: Window, ..VIEW },
            Self::Reshape | Self::Transpose { .. } => Properties { moves_quantised: true, ..VIEW },
            Self::Expand => VIEW,
            Self::BitCast => Properties { elements: Elements::Bits, size: Size::Own, takes_narrow: false, ..MOVED },
            Self::Pad { mode, .. } => {
                let number = match mode {
                    PadMode::Constant(number) => Some(*number),
                    PadMode::Reflect | PadMode::Edge | PadMode::Wrap => None,
                };
                Properties { number, layout: OfInputs, ..MOVED }
            }
            Self::Tile { .. } | Self::Gather { .. } | Self::SpaceToDepth { .. } => MOVED,
            Self::DepthToSpace { .. } => images(MOVED),
            Self::Softmax { log: false, .. } => OWN,
            Self::Softmax { log: true, .. } => Properties { data: Inputs::First(1), ..PROPORTIONAL },
            // Means of the values.
            Self::Attention { .. } => {
                Properties { data: Inputs::At(&[2]), size: Size::OfData, reads_slices: true, ..PROPORTIONAL }
            }
            Self::Reduce { kind, keep, .. } => {
                use Reduction::{
                    ArgMax, ArgMaxLast, ArgMin, ArgMinLast, L1, L2, LogSum, LogSumExp, Max, Mean, Min, Product, Sum,
                    SumSquare,
                };
                let layout = if *keep { OfInputs } else { RowMajor };
                match kind {
                    Max | Min => pooled(true, layout),
                    Mean => pooled(false, layout),
                    Sum | Product | L1 | L2 | SumSquare => Properties { layout, ..ACCUMULATED },
                    LogSum | LogSumExp => Properties { size: Size::Logarithm, layout, ..PROPORTIONAL },
                    ArgMax | ArgMaxLast | ArgMin | ArgMinLast => Properties { layout, ..OWN },
                }
            }
            Self::Resize { interpolation, .. } => {
                let resized = match interpolation {
                    Interpolation::Nearest(_) => {
                        Properties { moves_quantised: true, integer_images: true, ..MOVED_WIDE }
                    }
                    Interpolation::Linear => pooled(false, OfInputs),
                    Interpolation::Cubic(..) => PROPORTIONAL,
                };
                Properties { reads_slices: true, layout: OfInputs, ..resized }
            }
            Self::Scatter { reduction } => {
                let data = Inputs::At(&[0, 2]);
                match reduction {
                    ScatterReduction::Replace => Properties { data, ..MOVED_WIDE },
                    ScatterReduction::Max | ScatterReduction::Min => {
                        Properties { data, elements: Elements::Chosen, ..MOVED_WIDE }
                    }
                    ScatterReduction::Add | ScatterReduction::Multiply => Properties { data, ..PROPORTIONAL },
                }
            }
            Self::TopK { .. } => pooled(true, RowMajor),
            Self::GridSample { sampling, outside, .. } => {
                let sampled = match sampling {
                    Sampling::Nearest => MOVED_WIDE,
                    Sampling::Linear => pooled(false, RowMajor),
                    Sampling::Cubic => Properties { data: Inputs::First(1), ..PROPORTIONAL },
                };
                let number = match outside {
                    Outside::Zeros => Some(0.0),
                    Outside::Border | Outside::Reflection => None,
                };
                Properties { number, exact: Inputs::At(&[1]), ..sampled }
            }
            Self::RoiAlign { kind, .. } => {
                let pooled = pooled(*kind == RegionPooling::Cells, RowMajor);
                // Where a bin has no pixel.
                Properties { number: Some(0.0), exact: Inputs::At(&[1]), ..pooled }
            }
            Self::PoolIndices { .. } | Self::Recurrent(_) => OWN,
            Self::Detect(detect) => Properties { boxes: Inputs::First(detect.boxes), ..OWN },
            Self::NonMaxSuppression { .. } => Properties { exact: Inputs::First(3), boxes: Inputs::First(1), ..OWN },
            // What rounds to zero or to its neighbour is still not it.
            Self::NonZero | Self::Unique { .. } => Properties { exact: Inputs::First(1), ..OWN },
            Self::Frame(_) => Properties { layout: OfReaders, ..OWN },
            // No more is known than its description says.
            Self::Custom(custom) => {
                let alone = custom.description.element_wise;
                let elements = if alone { Elements::EachAlone } else { Elements::Computed };
                Properties { elements, exact: Inputs::Mask(custom.exact_inputs()), ..PROPORTIONAL }
            }
        }
    }
}
