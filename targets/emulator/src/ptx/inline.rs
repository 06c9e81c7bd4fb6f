//! Calls: the body of the function takes the place of each, so that the machine knows none.
//!
//! Parameters of calls are variables of the caller; the callee's names for them stand for these. A call of a function
//! that has no body stays, and is refused where the kernel is decoded.

use super::error::{Error, ErrorKind};
use super::{Base, Function, Instruction, Kernel, Operand, Symbol};

/// Deepest nesting of calls.
const MAX_CALLS: u32 = 16;
/// Most instructions of a kernel with the functions it calls.
const MAX_INSTRUCTIONS: usize = 1 << 20;

/// Puts functions in the place of their calls.
pub(super) fn inline(kernel: &mut Kernel, functions: &[Function]) -> Result<(), Error> {
    if !kernel.instructions.iter().any(|instruction| callee(instruction, functions).is_some()) {
        return Ok(());
    }
    let body = std::mem::take(kernel);
    let mut whole = Kernel {
        name: body.name.clone(),
        parameters: body.parameters.clone(),
        max_threads: body.max_threads,
        required_threads: body.required_threads,
        required_cluster: body.required_cluster,
        ..Kernel::default()
    };
    splice(&mut whole, &body, &[], functions, 0)?;
    *kernel = whole;
    Ok(())
}

/// The function that an instruction calls, and the variables that its parameters stand for: results first.
fn callee<'f>(instruction: &Instruction, functions: &'f [Function]) -> Option<(&'f Function, Vec<Symbol>)> {
    if instruction.name.split('.').next() != Some("call") {
        return None;
    }
    let named = |operand: &Operand| match operand {
        Operand::Other(name) => functions.iter().find(|function| function.body.name == **name),
        _ => None,
    };
    let function = instruction.operands.iter().find_map(named)?;
    let mut variables = Vec::new();
    for operand in &instruction.operands {
        match operand {
            Operand::Vector(elements) => {
                for element in elements {
                    let Operand::Symbol(symbol, 0) = element else { return None };
                    variables.push(*symbol);
                }
            }
            Operand::Other(_) => {}
            _ => return None,
        }
    }
    (variables.len() == function.parameters).then_some((function, variables))
}

/// Appends a body. Its first variables stand for `actual`; its `ret` goes on behind it, unless it is the kernel's own.
fn splice(
    whole: &mut Kernel,
    body: &Kernel,
    actual: &[Symbol],
    functions: &[Function],
    depth: u32,
) -> Result<(), Error> {
    let registers = whole.registers.len() as u32;
    whole.registers.extend(&body.registers);
    let mut variables = actual.to_vec();
    for variable in &body.variables[actual.len()..] {
        variables.push(Symbol::Kernel(whole.variables.len() as u32));
        whole.variables.push(variable.clone());
    }
    let labels = whole.labels.len() as u32;
    // The last label is the end.
    whole.labels.resize(whole.labels.len() + body.labels.len() + 1, 0);
    let end = labels + body.labels.len() as u32;
    let map = Map { registers, labels, variables };
    let mut places = Vec::with_capacity(body.instructions.len() + 1);
    for instruction in &body.instructions {
        let limit =
            |what, limit| Err(Error { line: instruction.line, column: 1, kind: ErrorKind::Limit { what, limit } });
        if whole.instructions.len() >= MAX_INSTRUCTIONS {
            return limit("instructions with those of functions called", MAX_INSTRUCTIONS as u64);
        }
        places.push(whole.instructions.len() as u32);
        let guard = instruction.guard.map(|(register, negated)| (registers + register, negated));
        let branch = |guard, label| Instruction {
            guard,
            name: "bra".into(),
            operands: [Operand::Label(label)].into(),
            line: instruction.line,
            source: instruction.source,
        };
        if let Some((function, actual)) = callee(instruction, functions) {
            if depth == MAX_CALLS {
                return limit("calls inside one another", u64::from(MAX_CALLS));
            }
            let behind = whole.labels.len() as u32;
            whole.labels.push(0);
            if let Some((register, negated)) = guard {
                whole.instructions.push(branch(Some((register, !negated)), behind));
            }
            let actual: Vec<Symbol> = actual.into_iter().map(|symbol| map.symbol(symbol)).collect();
            splice(whole, &function.body, &actual, functions, depth + 1)?;
            whole.labels[behind as usize] = whole.instructions.len() as u32;
        } else if depth > 0 && instruction.name.split('.').next() == Some("ret") {
            whole.instructions.push(branch(guard, end));
        } else {
            let operands = instruction.operands.iter().map(|operand| map.operand(operand)).collect();
            whole.instructions.push(Instruction { guard, operands, ..instruction.clone() });
        }
    }
    places.push(whole.instructions.len() as u32);
    for (i, label) in body.labels.iter().enumerate() {
        whole.labels[labels as usize + i] = places[*label as usize];
    }
    whole.labels[end as usize] = whole.instructions.len() as u32;
    Ok(())
}

/// What the names of a body become.
struct Map {
    registers: u32,
    labels: u32,
    variables: Vec<Symbol>,
}

impl Map {
    fn symbol(&self, symbol: Symbol) -> Symbol {
        match symbol {
            Symbol::Kernel(variable) => self.variables[variable as usize],
            other => other,
        }
    }

    fn operand(&self, operand: &Operand) -> Operand {
        match operand {
            Operand::Register(register) => Operand::Register(self.registers + register),
            Operand::Not(register) => Operand::Not(self.registers + register),
            Operand::Symbol(symbol, offset) => Operand::Symbol(self.symbol(*symbol), *offset),
            Operand::Address(base, offset) => {
                let base = match *base {
                    Base::Register(register) => Base::Register(self.registers + register),
                    Base::Symbol(symbol) => Base::Symbol(self.symbol(symbol)),
                    Base::Absolute => Base::Absolute,
                };
                Operand::Address(base, *offset)
            }
            Operand::Vector(elements) => {
                Operand::Vector(elements.iter().map(|element| self.operand(element)).collect())
            }
            Operand::Pair(both) => Operand::Pair(Box::new([self.operand(&both[0]), self.operand(&both[1])])),
            Operand::Label(label) => Operand::Label(self.labels + label),
            other => other.clone(),
        }
    }
}
