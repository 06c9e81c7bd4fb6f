//! Bytes that are scaled by a byte of their channel: what a gate does to an image on its way to a product.

use super::pair::Scaling;
use super::{Body, Outcome, Printer, Source, Tables, WHOLE, range, whole_functions};
use crate::DType;
use crate::pointwise::{Class, Instruction, Program};

/// `Factors` of the four channels of a word; `factors_of`, from the bytes of a scale; `scale_word`, which makes of four bytes of an image
/// what `program` makes of each and of its channel's scale. The program's inputs are the image's byte and the scale's; its result is a
/// byte of the image's type. None where the program is not of f32.
pub(crate) fn scaling_functions(program: &Program, image: DType, scale: DType) -> Option<String> {
    let sources = [Source::Integer(image), Source::Integer(scale)];
    let [of_image, of_scale] = [image.name(), scale.name()];
    let (functions, Scaling { factor, part, word }) = match product(program, &sources, image) {
        Some(scaling) => (WHOLE.to_owned(), scaling),
        None => {
            let part = format!("scaled_part(element_of_{of_image}(word, j), factor)");
            let scaling = Scaling { factor: "x1".into(), part, word: "scaled_word(parts)".into() };
            (whole_functions("scaled", program, &sources, image, Tables::InMemory)?, scaling)
        }
    };
    Some(format!(
        "{functions}typedef float4 Factors;\n\
         DEVICE f32 factor_of(f32 x1) {{ return {factor}; }}\n\
         DEVICE Factors factors_of(u32 word) {{\n    f32 y[4];\n#pragma unroll\n    \
         for (int j = 0; j < 4; j++) y[j] = factor_of(element_of_{of_scale}(word, j));\n    \
         return make_float4(y[0], y[1], y[2], y[3]);\n}}\n\
         DEVICE u32 part_of(u32 word, int j, f32 factor) {{ return {part}; }}\n\
         // Four elements, scaled and requantised.\n\
         DEVICE u32 scale_word(u32 word, const Factors& by) {{\n    const u32 parts[4] = {{\n        \
         part_of(word, 0, by.x), part_of(word, 1, by.y), part_of(word, 2, by.z), part_of(word, 3, by.w)}};\n    \
         return {word};\n}}\n"
    ))
}

/// The expressions where the result is a product of both inputs that saturation bounds.
fn product(program: &Program, sources: &[Source], output: DType) -> Option<Scaling> {
    let result = program.instructions.len().checked_sub(1).filter(|_| program.class == Class::F32)?;
    let printer = Printer::new(program, sources, range(output));
    let Body { above, outcome, .. } = printer.body("scaled", Tables::InMemory, &mut Vec::new());
    let (_, word) = printer.part(result, &above, &outcome, output);
    let Outcome::Joined(joined) = outcome else { return None };
    let inputs = joined.registers().map(|register| program.instructions[register]);
    if inputs != [Instruction::Input(1), Instruction::Input(0)] {
        return None;
    }
    joined.scaling(word, output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointwise::{Binary, Unary};

    /// The text of a byte joined with its channel's by `join`, of these types, requantised.
    fn text(join: Binary, types: [DType; 2], zero: f64) -> String {
        use Instruction::{Binary as Two, Float, Input, Unary as One};
        let instructions = [
            Input(0),
            Float(zero),
            Two(Binary::Sub, 0, 1),
            Float(0.0419),
            Two(Binary::Mul, 2, 3),
            Input(1),
            Float(0.0041),
            Two(Binary::Mul, 5, 6),
            Two(join, 4, 7),
            Float(0.0373),
            Two(Binary::Div, 8, 9),
            One(Unary::Round, 10),
        ];
        let program = Program { class: Class::F32, inputs: 2, instructions: instructions.into_iter().collect() };
        scaling_functions(&program, types[0], types[1]).expect("of f32")
    }

    /// The function that gives a part.
    fn part(text: &str) -> &str {
        text.split("DEVICE u32 part_of(").nth(1).and_then(|rest| rest.lines().next()).expect("the function")
    }

    #[test]
    fn gates_scale_by_one_multiply_add_of_a_float_near_zero() {
        let signed = text(Binary::Mul, [DType::I8, DType::U8], -5.0);
        // 2⁻⁵² and 123 units of 2⁻⁷⁵ more; results are 128 more.
        for piece in ["word ^ 0x80808080u, 0x25800000u", "__uint_as_float(0x2580007bu)), factor, __uint_as_float(128u)"]
        {
            assert!(part(&signed).contains(piece), "{signed}");
        }
        assert!(signed.contains("element_of_u8(word, j)") && signed.contains("^ 0x80808080u;\n}"), "{signed}");
        let unsigned = text(Binary::Mul, [DType::U8, DType::I8], 3.0);
        assert!(part(&unsigned).contains("__byte_perm(word, 0x25800000u"), "{unsigned}");
        assert!(part(&unsigned).contains("__uint_as_float(0x25800003u)), factor, __uint_as_float(0u)"), "{unsigned}");
    }

    #[test]
    fn what_is_no_product_is_computed_as_a_program() {
        let text = text(Binary::Add, [DType::I8, DType::I8], 0.0);
        assert!(part(&text).contains("scaled_part(element_of_i8(word, j), factor)"), "{text}");
        assert!(text.contains("factor_of(f32 x1) { return x1; }"), "{text}");
    }
}
