//! The kernel families of Floe.
//!
//! Each family is one folder: its parameters and their check (`mod.rs`), its reference kernel in plain Rust (`host.rs`) and,
//! behind the feature `codegen`, its CUDA source and candidates (`cuda.rs` with a `.cu` beside it). A family knows
//! shapes, strides and types; it never knows graphs or files.
//!
//! The crate is `no_std` without `alloc` unless `codegen` is on.
#![cfg_attr(not(any(test, feature = "codegen")), no_std)]
#![warn(missing_docs)]

mod error;
#[cfg(feature = "codegen")]
mod gemm;
pub(crate) mod host;
mod kernel;
mod loop_nest;
mod strided;
mod view;

pub mod narrow;
pub mod pointwise;

pub mod attention;
pub mod conv;
pub mod copy;
pub mod cumulative;
pub mod custom;
pub mod detect;
pub mod determinant;
pub mod frame;
pub mod gather;
pub mod grid_sample;
pub mod lrn;
pub mod matmul;
pub mod mbconv;
pub mod non_max_suppression;
pub mod non_zero;
pub mod normalize;
pub mod packed_matmul;
pub mod pad;
pub mod pool;
pub mod pool_indices;
pub mod quantized_average;
pub mod quantized_mbconv;
pub mod recurrent;
pub mod reduce;
pub mod resize;
pub mod roi_align;
pub mod scatter;
pub mod separable_conv;
pub mod softmax;
pub mod squeeze_excite;
pub mod top_k;
pub mod unique;

#[cfg(feature = "codegen")]
pub mod codegen;

// Families that are one convolution with other parameters, under their names.
pub use conv::pooled::averaged as averaged_conv;
pub use conv::pooled::averaged::quantized as averaged_quantized_conv;
pub use conv::pooled::quantized as pooled_quantized_conv;
pub use conv::quantized::{dual as dual_quantized_conv, quantizing as quantizing_conv};
pub use conv::scaled::quantized as scaled_quantized_conv;
pub use conv::{
    pooled as pooled_conv, quantized as quantized_conv, scaled as scaled_conv, transposed as conv_transpose,
};
// Separable ones of integers, products of normalised rows and with moments of rows, and recurrent layers above each other.
pub use matmul::{moments as moments_matmul, normalized as normalized_matmul};
pub use recurrent::stack as recurrent_stack;
pub use separable_conv::quantized as quantized_separable_conv;

pub use error::KernelError;
pub use kernel::{FAMILIES, Family, Kernel, MAX_INPUTS, MAX_OUTPUTS, Named};
pub use view::{DType, Dims, MAX_RANK, Strides, View};
