//! Programs that round to whole numbers, as the epilogues of 8-bit products do.
//!
//! What is known of every register (its range, whether it is whole, whether it can be NaN) replaces conversions by sums,
//! bounds that nothing reaches by nothing, and whatever follows one 8-bit value by what is cheapest: a factor, where that
//! gives the same for each of its 256 values, or a table that the reference kernel's arithmetic has filled. What follows
//! two 8-bit values, such as a requantised residual sum or a gated channel, is their weighted sum or product, where that gives the same
//! for all 65,536 pairs ([`pair`]).

mod factor;
mod facts;
mod pair;
mod saturated;
mod scaling;
mod table;

use super::source::instruction_expression;
use super::{Arithmetic, f32_literal, quotient};
use crate::DType;
use crate::pointwise::{Binary, Class, Instruction, Program, Unary};
use factor::Scaled;
use facts::Fact;
use pair::TwoBytes;
pub(crate) use scaling::scaling_functions;
use std::fmt::Write;
use std::ops::RangeInclusive;
pub(crate) use table::{SHARED_TABLES, Tables};
use table::{Table, byte_type, copies};

/// Helpers that the printed functions call.
const WHOLE: &str = include_str!("whole.cu");

/// 1.5 · 2²³.
const WHOLE_SUM: f64 = 12_582_912.0;
/// Largest magnitude that a sum with it rounds.
const ROUNDED: f64 = 4_194_304.0;
/// Largest magnitude of a bound that is taken before rounding.
const BOUND: f64 = 1_048_576.0;
/// Largest magnitude that factors and addends of channels are taken to have: 2⁴⁰.
const CHANNEL: f64 = 1_099_511_627_776.0;
/// Instruction slots from which on a table is cheaper.
const TABLE: u32 = 20;

/// What an input of a program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Integers, or floats made of them.
    Integer(DType),
    /// A factor or an addend of whole channels, taken to be a number of up to 2⁴⁰: a network with larger scales has no 8-bit value.
    Channel,
    /// Any float.
    Float,
    /// Any but NaN.
    Number,
}

/// A printed program with what was found out about it.
struct Printer<'a> {
    program: &'a Program,
    facts: Vec<Fact>,
    /// The 8-bit register that alone decides each register's value.
    bases: Vec<Option<usize>>,
    /// Whether a register that another one decides is a base itself: its byte is looked up, and what follows is made of it.
    looked_up: Vec<bool>,
    /// Range of values that the stored type tells apart.
    stored: Option<(f64, f64)>,
    /// Of an 8-bit register the range beyond which nothing that reads it changes any more; empty until facts are known.
    narrowed: Vec<Option<(f64, f64)>>,
}

/// `DEVICE f32 NAME(f32 x0, …)` and, where `output` has 8 bits, `DEVICE u32 NAME_byte(f32 x0, …)`, whose last byte is what is
/// stored, and `DEVICE u32 NAME_part(f32 x0, …)`, of four of which `DEVICE u32 NAME_word(const u32* parts)` makes a word to store, where
/// `NAME_ZERO` is the part of a zero; none where the program is not of f32. Tables are read where `place` says, unless they take more than
/// [`SHARED_TABLES`].
pub(crate) fn whole_functions(
    name: &str,
    program: &Program,
    sources: &[Source],
    output: DType,
    place: Tables,
) -> Option<String> {
    if program.class != Class::F32 || program.instructions.is_empty() {
        return None;
    }
    let stored = range(output);
    // Where one float alone may be NaN, it is looked at once, and nothing on the way to the byte needs to mind.
    let nan = if stored.is_some() && sources == [Source::Float] { of_nan(program) } else { None };
    let printer = Printer::new(program, if nan.is_some() { &[Source::Number] } else { sources }, stored);
    let mut tables = Vec::new();
    let mut body = printer.body(name, place, &mut tables);
    let copies = match place {
        Tables::InMemory => String::new(),
        Tables::Shared if tables.iter().map(|table| table.bytes).sum::<usize>() > SHARED_TABLES as usize => {
            tables.clear();
            body = printer.body(name, Tables::InMemory, &mut tables);
            copies(name, &[])
        }
        Tables::Shared => copies(name, &tables),
    };
    let tables: String = tables.into_iter().map(|table| table.text).collect();
    let parameters: Vec<String> = (0..program.inputs).map(|i| format!("f32 x{i}")).collect();
    let parameters = parameters.join(", ");
    let result = program.instructions.len() - 1;
    let apart = |value: String, of_nan: Option<String>| match of_nan {
        Some(of_nan) => format!("x0 == x0 ? {value} : {of_nan}"),
        None => value,
    };
    let value = apart(format!("r{result}"), nan.map(f32_literal));
    let Body { text, above, outcome } = body;
    let mut s = format!("{WHOLE}{tables}{copies}DEVICE f32 {name}({parameters}) {{\n{text}    return {value};\n}}\n");
    if stored.is_some() {
        let stored_as = |value: f32| if output == DType::I8 { i32::from(value as i8) } else { i32::from(value as u8) };
        let byte = apart(printer.byte(result, &above, output), nan.map(|nan| format!("{}u", stored_as(nan) & 255)));
        let (part, word) = printer.part(result, &above, &outcome, output);
        let part = apart(part, nan.map(|nan| format!("{}u", (stored_as(nan) + word.more()) & 255)));
        let (zero, word) = (word.more(), word.expression());
        write!(
            s,
            "DEVICE u32 {name}_byte({parameters}) {{\n{text}    return {byte};\n}}\n\
             DEVICE u32 {name}_part({parameters}) {{\n{text}    return {part};\n}}\n\
             constexpr u32 {name}_ZERO = {zero};\n\
             DEVICE u32 {name}_word(const u32* parts) {{ return {word}; }}\n"
        )
        .expect("writing to a string");
    }
    Some(s)
}

/// Instruction slots in which a program makes a byte of a float, roughly: a quotient is several, and so are bounds, NaN and the way into a
/// word.
pub(crate) fn slots_to_byte(program: &Program) -> f64 {
    4.0 + program.instructions.len() as f64
}

/// What the reference kernel's arithmetic makes of NaN.
fn of_nan(program: &Program) -> Option<f32> {
    let mut result = [0.0];
    program.run_f32(&[&[f32::NAN]], &mut result).ok()?;
    Some(result[0])
}

/// Values of an 8-bit type.
fn range(dtype: DType) -> Option<(f64, f64)> {
    match dtype {
        DType::I8 => Some((-128.0, 127.0)),
        DType::U8 => Some((0.0, 255.0)),
        _ => None,
    }
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program, sources: &[Source], stored: Option<(f64, f64)>) -> Self {
        let looked_up = vec![false; program.instructions.len()];
        let mut printer =
            Self { program, facts: Vec::new(), bases: Vec::new(), looked_up, stored, narrowed: Vec::new() };
        printer.find_facts(sources);
        printer.find_bytes_to_look_up(sources);
        printer.narrowed = (0..program.instructions.len()).map(|number| printer.narrowed(number)).collect();
        printer.find_facts(sources);
        printer
    }

    /// Marks bytes on the way to floats that would need a table of their own: four times as large, and of no use for a weighted sum.
    fn find_bytes_to_look_up(&mut self, sources: &[Source]) {
        for outlet in 0..self.program.instructions.len() {
            let needs_floats = self.is_outlet(outlet)
                && self.slots(outlet) > TABLE
                && self.scaled(outlet).is_none()
                && self.bounded_values(outlet).is_some_and(|(_, values)| byte_type(&values).is_none());
            let (Some(base), true) = (self.bases[outlet], needs_floats) else { continue };
            for register in (base + 1..outlet).rev() {
                let is_byte = self.bases[register] == Some(base)
                    && self.slots(register) > TABLE
                    && self.facts[register].is_byte()
                    && self.bounded_values(register).is_some_and(|(_, values)| byte_type(&values).is_some());
                if !is_byte {
                    continue;
                }
                self.looked_up[register] = true;
                self.find_facts(sources);
                if self.bases[outlet] == Some(register) {
                    break;
                }
                self.looked_up[register] = false;
                self.find_facts(sources);
            }
        }
    }

    /// The range of an 8-bit register beyond which all that it decides stays as it is: a ReLU behind it, and scales at which
    /// results saturate earlier, need no bounds of their own then.
    fn narrowed(&self, register: usize) -> Option<(f64, f64)> {
        let instructions = self.program.instructions.iter().enumerate();
        let mut readers = instructions.clone().filter(|(_, instruction)| instruction.reads(register));
        let alone = readers.all(|(reader, _)| self.bases[reader] == Some(register));
        if self.bases[register] != Some(register) || !alone || register + 1 == self.program.instructions.len() {
            return None;
        }
        let (mut first, mut last) = (usize::MAX, 0);
        for (outlet, _) in instructions {
            if self.bases[outlet] != Some(register) || !self.is_outlet(outlet) {
                continue;
            }
            let values = self.bounded_values(outlet)?.1;
            let (least, most) = (values.first()?, values.last()?);
            first = first.min(values.iter().take_while(|value| *value == least).count() - 1);
            last = last.max(values.len() - values.iter().rev().take_while(|value| *value == most).count());
        }
        let start = f64::from(*self.bytes(register).start());
        (first < last).then_some((start + first as f64, start + last as f64))
    }

    fn at(&self, register: u8) -> usize {
        usize::from(register)
    }

    fn constant(&self, register: u8) -> Option<f64> {
        match self.program.instructions[usize::from(register)] {
            Instruction::Float(value) => Some(f64::from(value as f32)),
            _ => None,
        }
    }

    fn base(&self, number: usize) -> Option<usize> {
        let operands = self.program.instructions[number].operands();
        let base_of = |register: usize| if self.looked_up[register] { Some(register) } else { self.bases[register] };
        let mut bases = operands.filter(|&r| self.constant(r).is_none()).map(|r| base_of(self.at(r)));
        let first = bases.next().flatten();
        if first.is_some() && bases.all(|base| base == first) {
            return first;
        }
        let is_constant = matches!(self.program.instructions[number], Instruction::Float(_) | Instruction::Integer(_));
        (self.facts[number].is_byte() && !is_constant).then_some(number)
    }

    /// Registers whose values are better looked up or scaled: those that one 8-bit register decides and that something
    /// else reads as well, or nothing.
    fn is_outlet(&self, number: usize) -> bool {
        let Some(base) = self.bases[number].filter(|&base| base != number) else { return false };
        let inside = |(reader, instruction): (usize, &Instruction)| {
            !instruction.reads(number) || self.bases[reader] == Some(base)
        };
        number + 1 == self.program.instructions.len() || !self.program.instructions.iter().enumerate().all(inside)
    }

    /// Instruction slots that lead from its base to a register.
    fn slots(&self, number: usize) -> u32 {
        let Some(base) = self.bases[number] else { return 0 };
        let mut needed = vec![false; number + 1];
        needed[number] = true;
        let mut slots = 0;
        for register in (base + 1..=number).rev().filter(|&r| self.bases[r] == Some(base)) {
            if !needed[register] {
                continue;
            }
            let instruction = self.program.instructions[register];
            slots += match instruction {
                Instruction::Unary(Unary::Relu | Unary::Round, _) => 2,
                Instruction::Unary(Unary::Abs | Unary::Neg, _) => 1,
                Instruction::Unary(..) => 30,
                Instruction::Binary(Binary::Add | Binary::Sub | Binary::Mul, ..) => 1,
                Instruction::Binary(Binary::Min | Binary::Max, ..) => 2,
                Instruction::Binary(Binary::Div, _, b) if quotient::divisor(self.program, register, b).is_some() => 3,
                Instruction::Binary(..) => 16,
                Instruction::Select(..) => 4,
                Instruction::Input(_) | Instruction::Float(_) | Instruction::Integer(_) => 0,
            };
            instruction.operands().for_each(|operand| needed[self.at(operand)] = true);
        }
        slots
    }

    /// The values of a register for every value of its base, and the first of those.
    fn values(&self, number: usize) -> Option<(i32, Vec<f32>)> {
        let base = self.bases[number]?;
        let range = self.bytes(base);
        let inputs: Vec<f32> = range.clone().map(|value| value as f32).collect();
        Some((*range.start(), self.computed(number, &[base], &[&inputs])?))
    }

    /// The same, bounded as what reads them bounds them.
    fn bounded_values(&self, number: usize) -> Option<(i32, Vec<f32>)> {
        let (first, values) = self.values(number)?;
        let (least, most) = self.bounds_of_readers(number);
        Some((first, values.into_iter().map(|value| value.max(least as f32).min(most as f32)).collect()))
    }

    /// The values that a register of 8 bits may have.
    fn bytes(&self, register: usize) -> RangeInclusive<i32> {
        self.facts[register].low as i32..=self.facts[register].high as i32
    }

    /// What the reference kernel's arithmetic makes of a register where others, which alone decide it, have these values.
    fn computed(&self, number: usize, others: &[usize], values: &[&[f32]]) -> Option<Vec<f32>> {
        let instructions = self.program.instructions.iter().take(number + 1).enumerate();
        let instructions = instructions.map(|(register, &instruction)| {
            match (others.iter().position(|&other| other == register), instruction) {
                (Some(input), _) => Instruction::Input(input as u8),
                (None, Instruction::Input(_)) => Instruction::Float(0.0),
                (None, other) => other,
            }
        });
        let inputs = others.len() as u8;
        let program = Program { class: Class::F32, inputs, instructions: instructions.collect() };
        let mut results = vec![0.0; values.first()?.len()];
        program.run_f32(values, &mut results).ok()?;
        // The facts say what the bounds of readers leave of it.
        let Fact { low, high, .. } = self.facts[number];
        let bounded = results.iter().map(|value| value.max(low as f32).min(high as f32)).collect();
        results.iter().all(|value| !value.is_nan()).then_some(bounded)
    }

    /// The statements of all registers; for each, an expression of it plus 1.5 · 2²³ or of its last byte, where there is one
    /// that costs less than the sum.
    fn body(&self, name: &str, place: Tables, tables: &mut Vec<Table>) -> Body {
        let mut outcome = Outcome::Program;
        let mut body = String::new();
        let mut above: Vec<Above> = Vec::new();
        for (number, &instruction) in self.program.instructions.iter().enumerate() {
            let mut short = Above::Sum;
            let mut value = None;
            if self.is_outlet(number) {
                let slots = self.slots(number);
                if let Some(scaled) = self.scaled(number).filter(|_| slots > 3) {
                    value = Some(scaled.expression());
                    if scaled.is_base() {
                        short = above[scaled.base].clone();
                    }
                    if number + 1 == self.program.instructions.len() {
                        outcome = Outcome::Scaled(scaled);
                    }
                }
                if value.is_none()
                    && slots > TABLE
                    && let Some((table, read, byte)) = self.table(name, number, place, &above)
                {
                    tables.push(table);
                    value = Some(match &byte {
                        Some(byte) => {
                            writeln!(body, "    const u32 b{number} = {byte};").expect("writing to a string");
                            short = Above::Byte(format!("b{number}"));
                            read.replace(byte, &format!("b{number}"))
                        }
                        None => read,
                    });
                }
            }
            if number + 1 == self.program.instructions.len()
                && let Some(of_two) = self.of_two_bytes(number)
            {
                (value, short) = (Some(String::new()), Above::Expression(of_two.expression()));
                outcome = Outcome::Joined(of_two);
            }
            let value = value.unwrap_or_else(|| {
                let (value, of) = self.expression(number, instruction, &above);
                short = of;
                value
            });
            if let Above::Expression(expression) = &short {
                writeln!(body, "    const f32 a{number} = {expression};").expect("writing to a string");
                short = Above::Expression(format!("a{number}"));
            }
            let value = if value.is_empty() { format!("__fsub_rn(a{number}, WHOLE)") } else { value };
            writeln!(body, "    const f32 r{number} = {value};").expect("writing to a string");
            above.push(short);
        }
        Body { text: body, above, outcome }
    }

    /// The expression of an instruction; an empty one is its sum less 1.5 · 2²³.
    fn expression(&self, number: usize, instruction: Instruction, above: &[Above]) -> (String, Above) {
        let fact = |register: u8| self.facts[self.at(register)];
        let same = |register: u8| (format!("r{register}"), above[self.at(register)].clone());
        let bounded = |x: String, low: f64, high: f64| {
            let x = if low.is_finite() { format!("fmaxf({x}, {})", f32_literal(low as f32)) } else { x };
            if high.is_finite() { format!("fminf({x}, {})", f32_literal(high as f32)) } else { x }
        };
        let plain = |value: String| (value, Above::Sum);
        match instruction {
            Instruction::Unary(Unary::Round, a) if fact(a).whole => same(a),
            Instruction::Unary(Unary::Round, a) => match self.bounds_before_rounding(number, a) {
                Some((low, high)) => {
                    let x = bounded(format!("r{a}"), low, high);
                    (String::new(), Above::Expression(format!("above_whole({x})")))
                }
                None => plain(format!("rintf(r{a})")),
            },
            // A relative error of 2⁻¹⁸ moves a byte only next to a tie.
            Instruction::Unary(Unary::Sigmoid, a) if self.stored.is_some() && !fact(a).nan => {
                plain(format!("sigmoid_16(r{a})"))
            }
            Instruction::Unary(Unary::Relu, a) if fact(a).low >= 0.0 => same(a),
            Instruction::Unary(Unary::Relu, a) if !fact(a).nan => plain(format!("fmaxf(r{a}, 0.0f)")),
            Instruction::Binary(Binary::Max, a, b) if fact(a).low >= fact(b).high && !fact(b).nan => same(a),
            Instruction::Binary(Binary::Max, a, b) if fact(b).low >= fact(a).high && !fact(a).nan => same(b),
            Instruction::Binary(Binary::Min, a, b) if fact(a).high <= fact(b).low && !fact(b).nan => same(a),
            Instruction::Binary(Binary::Min, a, b) if fact(b).high <= fact(a).low && !fact(a).nan => same(b),
            Instruction::Binary(Binary::Max, a, b) if !fact(a).nan && !fact(b).nan => {
                plain(format!("fmaxf(r{a}, r{b})"))
            }
            Instruction::Binary(Binary::Min, a, b) if !fact(a).nan && !fact(b).nan => {
                plain(format!("fminf(r{a}, r{b})"))
            }
            Instruction::Binary(Binary::Add, a, b) => {
                // Whole numbers are added to the sum as to the number.
                let value = format!("r{a} + r{b}");
                let small = self.facts[number].whole && self.facts[number].within(-BOUND, BOUND);
                match &above[self.at(a)] {
                    Above::Expression(sum) if small && self.constant(b).is_some() => {
                        (value, Above::Expression(format!("__fadd_rn({sum}, r{b})")))
                    }
                    _ => plain(value),
                }
            }
            Instruction::Binary(Binary::Div, a, b) => match quotient::divisor(self.program, number, b) {
                Some(by) => {
                    let operand = format!("r{a}");
                    let (function, x) = match self.bounds_before_dividing(number, a, by) {
                        Some(q) => {
                            let least = if fact(a).low >= q.least.into() { f32::NEG_INFINITY } else { q.least };
                            let most = if fact(a).high <= q.most.into() { f32::INFINITY } else { q.most };
                            ("quotient_bounded", bounded(operand, least.into(), most.into()))
                        }
                        None if self.is_finite_quotient(a, by) => ("quotient_bounded", operand),
                        None => ("quotient", operand),
                    };
                    plain(format!("{function}({x}, {}, {})", f32_literal(by), f32_literal(by.recip())))
                }
                None => plain(instruction_expression(self.program, number, Arithmetic::Exact)),
            },
            _ => plain(instruction_expression(self.program, number, Arithmetic::Exact)),
        }
    }

    /// What ends in the byte that is stored.
    fn byte(&self, number: usize, above: &[Above], output: DType) -> String {
        let (fact, (low, high)) = (self.facts[number], self.stored.unwrap_or((0.0, 0.0)));
        // A table of bytes holds what is stored.
        if let Above::Byte(byte) = &above[number] {
            return byte.clone();
        }
        if fact.nan || !fact.whole {
            return format!("(u32)(i32)store_as<{}>(r{number})", output.name());
        }
        if !fact.within(low, high) {
            // Next to 1.5 · 2²³ bounds are whole numbers too, so that the sum can be bounded in place of the value.
            if let (Above::Expression(sum), true) = (&above[number], fact.within(-ROUNDED, ROUNDED)) {
                let [low, high] = [low, high].map(above_literal);
                return format!("__float_as_uint(fminf(fmaxf({sum}, {low}), {high}))");
            }
            let (low, high) = (f32_literal(low as f32), f32_literal(high as f32));
            return format!("__float_as_uint(above_whole(fminf(fmaxf(r{number}, {low}), {high})))");
        }
        format!("__float_as_uint({})", sum(number, above))
    }
}

/// The printed statements of a program.
struct Body {
    text: String,
    /// Of each register.
    above: Vec<Above>,
    outcome: Outcome,
}

/// How the result is printed.
enum Outcome {
    /// By its instruction.
    Program,
    /// As a byte times a factor.
    Scaled(Scaled),
    /// As a sum or product of two bytes.
    Joined(TwoBytes),
}

/// What there is of a register besides its value.
#[derive(Clone)]
enum Above {
    /// Nothing: the sum is made of the value.
    Sum,
    /// The sum with 1.5 · 2²³.
    Expression(String),
    /// The last byte.
    Byte(String),
}

/// A whole number plus 1.5 · 2²³.
fn above_literal(value: f64) -> String {
    f32_literal((value + WHOLE_SUM) as f32)
}

/// An expression of a register plus 1.5 · 2²³.
fn sum(number: usize, above: &[Above]) -> String {
    match above.get(number) {
        Some(Above::Expression(expression)) => expression.clone(),
        _ => format!("above_whole(r{number})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of a sum times a factor, through `rest`, divided, rounded, and stored as `output`.
    fn requantised(rest: &[Instruction], divisor: f64, output: DType) -> String {
        of_sums(DType::I32, rest, divisor, output)
    }

    /// The same of sums of this type.
    fn of_sums(sums: DType, rest: &[Instruction], divisor: f64, output: DType) -> String {
        let mut instructions =
            vec![Instruction::Input(0), Instruction::Input(1), Instruction::Binary(Binary::Mul, 0, 1)];
        instructions.extend(rest);
        let last = instructions.len() as u8;
        instructions.extend([
            Instruction::Float(divisor),
            Instruction::Binary(Binary::Div, last - 1, last),
            Instruction::Unary(Unary::Round, last + 1),
        ]);
        let program = Program { class: Class::F32, inputs: 2, instructions: instructions.into_iter().collect() };
        whole_functions("f", &program, &[Source::Integer(sums), Source::Channel], output, Tables::InMemory)
            .expect("of f32")
    }

    /// The same where the product is rounded to bytes of the scale 0.05 before `rest`, and stored as bytes of another scale.
    pub(super) fn behind_bytes(rest: &[Instruction], scale: f64) -> String {
        let bytes = [
            Instruction::Unary(Unary::Round, 2),
            Instruction::Float(-128.0),
            Instruction::Binary(Binary::Max, 3, 4),
            Instruction::Float(127.0),
            Instruction::Binary(Binary::Min, 5, 6),
            Instruction::Float(0.05),
            Instruction::Binary(Binary::Mul, 7, 8),
        ];
        requantised(&[&bytes, rest].concat(), scale, DType::I8)
    }

    /// Of the functions the one that gives the stored byte.
    pub(super) fn stored(text: &str) -> &str {
        function(text, "f_byte")
    }

    /// A printed function from its parameters on.
    pub(super) fn function<'a>(text: &'a str, name: &str) -> &'a str {
        let start = text.split(&format!("DEVICE u32 {name}(")).nth(1).expect("the function");
        start.split("}\n").next().unwrap_or(start)
    }

    #[test]
    fn tables_hold_values_within_the_bounds_that_facts_take() {
        // A quotient of up to 5 · 10⁶ has more than a sum can round, so that facts take it as bounded to what is stored.
        let instructions = [
            Instruction::Input(0),
            Instruction::Unary(Unary::Sigmoid, 0),
            Instruction::Float(2e-7),
            Instruction::Binary(Binary::Div, 1, 2),
            Instruction::Unary(Unary::Round, 3),
        ];
        let program = Program { class: Class::F32, inputs: 1, instructions: instructions.into() };
        let text =
            whole_functions("f", &program, &[Source::Integer(DType::I8)], DType::I8, Tables::InMemory).expect("of f32");
        // The first is of 0, a half of 5 · 10⁶ if nothing bounds it.
        assert!(text.contains("const u8 f_table_4[256] = {127,"), "{text}");
    }

    #[test]
    fn shared_tables_have_copies_and_no_more_room_than_is_promised() {
        // Sigmoids of so many operands, each of 8 bits, are a table of floats each.
        let program = |tables: u8| {
            let of_input = |input| [Instruction::Input(input), Instruction::Unary(Unary::Sigmoid, 2 * input)];
            let mut instructions: Vec<_> = (0..tables).flat_map(of_input).collect();
            for table in 1..tables {
                let sum = if table == 1 { 1 } else { instructions.len() as u8 - 1 };
                instructions.push(Instruction::Binary(Binary::Add, sum, 2 * table + 1));
            }
            Program { class: Class::F32, inputs: tables, instructions: instructions.into_iter().collect() }
        };
        let printed = |tables: u8| {
            let sources = vec![Source::Integer(DType::U8); tables.into()];
            whole_functions("f", &program(tables), &sources, DType::F32, Tables::Shared).expect("of f32")
        };
        let two = printed(2);
        for table in ["f_table_1", "f_table_3"] {
            assert!(two.contains(&format!("__shared__ u32 __align__(16) {table}[256];")), "{two}");
            assert!(two.contains(&format!("    copy({table}, {table}_values, 1024);")), "{two}");
        }
        // A third would exceed them.
        let three = printed(3);
        assert!(three.contains("DEVICE void f_tables(Copy copy) {\n}") && !three.contains("__shared__"), "{three}");
        assert!(three.contains("static __device__ const u32 f_table_5[256]"), "{three}");
    }

    #[test]
    fn tables_of_results_that_saturate_hold_bytes() {
        let silu = [Instruction::Unary(Unary::Sigmoid, 9), Instruction::Binary(Binary::Mul, 9, 10)];
        for scale in (20..=50).map(|thousandths| f64::from(thousandths) / 1000.0) {
            let text = behind_bytes(&silu, scale);
            assert!(text.contains("const u8 f_table_"), "{scale}: {text}");
            let byte = stored(&text);
            assert!(byte.contains("return b14;"), "{byte}");
        }
    }

    #[test]
    fn functions_of_finite_sums_need_no_care_for_nan() {
        let silu = [Instruction::Unary(Unary::Sigmoid, 2), Instruction::Binary(Binary::Mul, 2, 3)];
        let text = requantised(&silu, 0.02, DType::I8);
        let byte = stored(&text);
        assert!(byte.contains("sigmoid_16(r2)") && byte.contains("quotient_bounded(r4, "), "{byte}");
        assert!(text.contains("return whole_bits(r6, "), "{text}");
        assert!(!byte.contains("store_as") && !byte.contains("rintf"), "{byte}");
        // What is stored in 32 bits keeps its exactness.
        assert!(requantised(&silu, 0.02, DType::F32).contains("= sigmoid(r2);"));
    }

    #[test]
    fn bytes_are_bounded_to_what_is_told_apart_behind_them() {
        // What lies below zero is zero behind a ReLU: one bound takes the place of two.
        let relu = behind_bytes(&[Instruction::Unary(Unary::Relu, 9)], 0.05);
        let [zero, most] = [0.0, 127.0].map(f32_literal);
        assert!(relu.contains(&format!("above_whole(fminf(fmaxf(r2, {zero}), {most}))")), "{relu}");
        let byte = stored(&relu);
        assert!(byte.contains("a13 = a3;") && byte.contains("return __float_as_uint(a13);"), "{byte}");
        // At a smaller scale results saturate from 77 on.
        let saturated = behind_bytes(&[], 0.03);
        let [least, most] = [-77.0, 76.0].map(f32_literal);
        assert!(saturated.contains(&format!("above_whole(fminf(fmaxf(r2, {least}), {most}))")), "{saturated}");
    }

    #[test]
    fn nan_is_set_apart_where_one_float_is_quantised() {
        let quantised = |instructions: &[Instruction], inputs: u8| {
            let instructions = instructions.iter().copied().collect();
            let program = Program { class: Class::F32, inputs, instructions };
            let sources = vec![Source::Float; inputs.into()];
            whole_functions("f", &program, &sources, DType::I8, Tables::InMemory).expect("of f32")
        };
        let linear = [
            Instruction::Input(0),
            Instruction::Float(0.5),
            Instruction::Binary(Binary::Div, 0, 1),
            Instruction::Unary(Unary::Round, 2),
            Instruction::Float(7.0),
            Instruction::Binary(Binary::Add, 3, 4),
        ];
        let text = quantised(&linear, 1);
        let byte = stored(&text);
        assert!(byte.contains("quotient_bounded(") && byte.contains("return x0 == x0 ? "), "{byte}");
        assert!(byte.contains(" : 0u;") && !byte.contains("rintf") && !byte.contains("store_as"), "{byte}");
        // NaN may become a number.
        let is_nan = quantised(&[Instruction::Input(0), Instruction::Unary(Unary::IsNan, 0)], 1);
        assert!(stored(&is_nan).contains(" : 1u;"), "{is_nan}");
        let sum = [Instruction::Input(0), Instruction::Input(1), Instruction::Binary(Binary::Add, 0, 1)];
        assert!(!quantised(&sum, 2).contains("x0 == x0"));
    }

    #[test]
    fn operands_of_rounded_quotients_are_bounded_in_place_of_quotients() {
        let bounded = of_sums(DType::I64, &[], 0.5, DType::I8);
        let [low, high] = [-64.0, 63.5].map(f32_literal);
        assert!(bounded.contains(&format!("quotient_bounded(fminf(fmaxf(r2, {low}), {high}), ")), "{bounded}");
        assert!(bounded.contains("= above_whole(r4);"), "{bounded}");
        // ReLU has taken what lies below.
        let positive = of_sums(DType::I64, &[Instruction::Unary(Unary::Relu, 2)], 0.5, DType::I8);
        assert!(positive.contains(&format!("quotient_bounded(fminf(r3, {high}), ")), "{positive}");
        // Nothing bounds floats.
        assert!(of_sums(DType::I64, &[], 0.5, DType::F32).contains("quotient(r2, "));
        // Sums of 32 bits give no infinity that could be divided.
        let finite = requantised(&[], 0.5, DType::I8);
        assert!(finite.contains("quotient_bounded(r2, ") && finite.contains("return whole_bits(r4, "), "{finite}");
    }
}
