//! CUDA candidates: first layers, which quantise pixels on their way to shared memory.

use super::QuantizingConv;
use crate::codegen::elementwise::{Elements, distinct_bytes};
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type};
use crate::conv::Parameters;
use crate::conv::cuda::{self, Quantisation};
use crate::gemm::{Map, Problem, map_of_view, spatial};
use crate::{DType, View};

impl Generate for QuantizingConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let refuse = |what: &str| Unsupported(format!("a quantising convolution {what}"));
        let image = self.image()?;
        let known = matches!(image.dtype, DType::F32 | DType::F16 | DType::Bf16) || image.dtype.is_byte();
        let program = self.quantize.whole("quantized").filter(|_| known);
        let program = program.ok_or_else(|| refuse("of other than f32, f16, bf16 and bytes by a program of f32"))?;
        let quantisation = Quantisation {
            function: function(&program, image.dtype),
            size: image.dtype.size() as u32,
            bytes: distinct_bytes(image),
        };
        let problem = reading(image, cuda::ungrouped(&self.conv.convolution())?);
        problem.check()?;
        let all = cuda::first_layers(&self.conv.geometry, &problem, Some(&quantisation), target);
        if all.is_empty() { Err(refuse("that is no first layer")) } else { Ok(all) }
    }
}

/// The text of `Image` and `quantize`, over that of the program.
fn function(program: &str, dtype: DType) -> String {
    let value = if dtype.is_byte() { Elements::Values.argument(dtype, "x".into()) } else { "to_f32(x)".into() };
    let image = element_type(dtype);
    format!("{program}typedef {image} Image;\nDEVICE u32 quantize(Image x) {{ return quantized_part({value}); }}\n")
}

/// A product whose factors are those of `problem`, made of the elements of an image.
fn reading(image: &View, mut problem: Problem) -> Problem {
    problem.a = Map { dtype: problem.a.dtype, column: 0, ..map_of_view(image) };
    problem.depth.stride = i64::from(image.strides[1]);
    if let Some(window) = &mut problem.depth.window {
        window.strides = spatial(image).1;
    }
    problem
}
