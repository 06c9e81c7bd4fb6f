//! CUDA candidates: those of the convolution on tensor cores, whose fragments are scaled on their way to the product
//! (sm_80 and later).

use super::ScaledQuantizedConv;
use crate::codegen::{Candidate, Generate, Source, Tables, Target, Unsupported, whole_functions};
use crate::conv::scaled::cuda::{factors, scaled};

/// Elements of a vector of 16 bytes.
const VECTOR: u32 = 16;

impl Generate for ScaledQuantizedConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let offset = factors(self, VECTOR)?;
        let [image, scale] = [self.image().dtype, self.scale.dtype];
        let sources = [Source::Integer(image), Source::Integer(scale)];
        let program = whole_functions("scaled", &self.scaling, &sources, image, Tables::InMemory)
            .ok_or_else(|| Unsupported("a scaling that is not of f32".into()))?;
        let function = format!(
            "{program}// Four elements, scaled and requantised.\n\
             DEVICE u32 scale_word(u32 word, u32 by) {{\n    u32 y[4];\n#pragma unroll\n    \
             for (int j = 0; j < 4; j++) y[j] = scaled_byte(element_of_{}(word, j), element_of_{}(by, j));\n    \
             return pack_bytes(y);\n}}\n",
            image.name(),
            scale.name()
        );
        scaled(self, offset, function, target)
    }
}
