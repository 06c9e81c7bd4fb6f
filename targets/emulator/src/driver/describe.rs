//! What the arguments of a plan's launches stand for. The driver sees addresses only; whoever knows the plan says which bytes
//! each of them means.

use floe_engine::plan::{
    Variant,
    format::{Action, Direction, Operand, Purpose, Region},
};

/// A pointer argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// What it points to, for people.
    pub name: String,
    /// Where in that it begins.
    pub offset: u64,
    /// Bytes that the launch may touch.
    pub bytes: u64,
    /// Whether it may write them.
    pub written: bool,
    /// Whether what a replay finds there has no meaning.
    pub transient: bool,
}

/// A launch of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in the plan.
    pub number: u32,
    /// Nodes of the model that it is for.
    pub nodes: String,
    /// Its kernel.
    pub kernel: String,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
    /// Whether a graph may be without it.
    pub optional: bool,
}

/// The steps of each shape of a variant's target, as a session makes its graphs.
pub fn of_plan(variant: &Variant<'_>) -> Vec<Vec<Step>> {
    variant.shapes().map(|shape| of_shape(&shape)).collect()
}

/// The steps of a variant.
fn of_shape(variant: &Variant<'_>) -> Vec<Step> {
    let bindings: Vec<_> = variant.bindings().collect();
    let kernels: Vec<_> = variant.kernels().collect();
    let counted = variant.header().zeroed_bytes;
    let argument = |operand: &Operand| {
        let Operand { region, offset, bytes, written } = *operand;
        let (name, transient) = match region {
            Region::Weights => ("the weights".to_owned(), false),
            Region::Arena if offset < counted => ("the counters".to_owned(), false),
            Region::Arena => ("the arena".to_owned(), true),
            Region::Counter => ("the counter of replays".to_owned(), false),
            Region::Report => ("the report".to_owned(), false),
            Region::Binding(number) => match bindings.get(usize::from(number)) {
                Some(binding) => {
                    let way = match binding.direction {
                        Direction::Input => "input",
                        Direction::Output => "output",
                        Direction::State => "state",
                    };
                    (format!("{way} '{}'", binding.name), binding.direction == Direction::Output)
                }
                None => (format!("binding {number}"), false),
            },
        };
        Argument { name, offset, bytes, written, transient }
    };
    let steps = variant.steps().zip(variant.notes().map(Some).chain(std::iter::repeat(None))).zip(0..);
    let steps = steps.filter_map(|((step, note), number)| {
        let Action::Launch { kernel, .. } = step.action else { return None };
        Some(Step {
            number,
            nodes: note.map_or(String::new(), |note| note.sources.to_owned()),
            kernel: kernels.get(kernel as usize)?.name.to_owned(),
            arguments: step.operands.iter().map(argument).collect(),
            optional: step.purpose() != Purpose::Network,
        })
    });
    steps.collect()
}
