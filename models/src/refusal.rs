//! What of a model is not supported, all of it at once.

use crate::ImportError;
use std::fmt;

/// A node that is not supported.
#[derive(Debug)]
pub struct Refusal {
    /// Domain of its operator; the default one is `ai.onnx`.
    pub domain: String,
    /// Name of its operator.
    pub operator: String,
    /// Version of the operator set of that domain, where the model says it.
    pub version: Option<i64>,
    /// Name of the node, or `OperatorType_number`; behind the name of the function that it stands in.
    pub node: String,
    /// An [`ImportError::Node`], or an [`ImportError::Branch`] that holds one.
    pub error: ImportError,
}

impl Refusal {
    /// What is wrong, without the node's name.
    fn reason(&self) -> String {
        let problem = |error: &ImportError| match error {
            ImportError::Node { problem, .. } => problem.to_string(),
            other => other.to_string(),
        };
        match &self.error {
            ImportError::Branch { node, inputs, source } => {
                format!("{}; {}", problem(source), crate::error::in_branch(node, inputs))
            }
            other => problem(other),
        }
    }
}

/// Kinds of refusals that a message lists.
const MOST_KINDS: usize = 24;
/// Nodes that a message names of one kind.
const MOST_NODES: usize = 4;
/// Longest name of a node in a message, in bytes.
const MOST_NAME: usize = 80;

/// The nodes of a model that are not supported, in the model's order. Shown as one line a kind: operator, version,
/// reason, and the nodes with their number.
#[derive(Debug)]
pub struct Refusals(Vec<Refusal>);

impl Refusals {
    pub(crate) fn new(refusals: Vec<Refusal>) -> Self {
        Self(refusals)
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Refusal] {
        &self.0
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
        for refusal in &self.0 {
            let Refusal { domain, operator, .. } = refusal;
            let version = refusal.version.map_or(String::new(), |version| format!(", operator set {version}"));
            let kind = format!("{operator} ({domain}{version}): {}", refusal.reason());
            match kinds.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, nodes)) => nodes.push(&refusal.node),
                None => kinds.push((kind, vec![&refusal.node])),
            }
        }
        write!(f, "{} nodes of the model are not supported:", self.0.len())?;
        for (kind, nodes) in kinds.iter().take(MOST_KINDS) {
            let names: Vec<String> = nodes.iter().take(MOST_NODES).map(|name| format!("'{}'", cut(name))).collect();
            let more = match nodes.len() - names.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let count = if nodes.len() == 1 { "node".into() } else { format!("{} nodes", nodes.len()) };
            write!(f, "\n  {kind}: {count} {}{more}", names.join(", "))?;
        }
        if kinds.len() > MOST_KINDS {
            let nodes: usize = kinds[MOST_KINDS..].iter().map(|(_, nodes)| nodes.len()).sum();
            write!(f, "\n  and {nodes} nodes for {} other reasons", kinds.len() - MOST_KINDS)?;
        }
        Ok(())
    }
}

/// The end of a long name tells more than its start.
fn cut(name: &str) -> String {
    match name.len() {
        0..=MOST_NAME => name.to_owned(),
        length => format!("…{}", &name[name.ceil_char_boundary(length - MOST_NAME)..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;

    fn refusal(operator: &str, node: String) -> Refusal {
        let problem = Problem::Operator { hint: String::new() };
        let error = ImportError::Node { node: node.clone(), operator: operator.into(), problem };
        Refusal { domain: "ai.onnx".into(), operator: operator.into(), version: Some(9), node, error }
    }

    #[test]
    fn a_message_has_a_line_a_kind_and_a_sensible_length() {
        let mut refusals: Vec<_> = (0..7).map(|number| refusal("Odd", format!("odd_{number}"))).collect();
        refusals.push(refusal("Even", "ä".repeat(500)));
        let text = Refusals(refusals).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "8 nodes of the model are not supported:");
        let odd = "  Odd (ai.onnx, operator set 9): the operator is not supported: 7 nodes 'odd_0', 'odd_1', 'odd_2', \
                   'odd_3' and 3 more";
        assert_eq!(lines[1], odd);
        assert!(lines[2].ends_with("ää'") && lines[2].len() < 160, "{}", lines[2]);

        let refusals = (0..1000).map(|number| refusal(&format!("Operator{number}"), "n".repeat(1024))).collect();
        let text = Refusals(refusals).to_string();
        assert!(text.ends_with("and 976 nodes for 976 other reasons"), "{text}");
        assert!(text.len() < 8192, "{}", text.len());
    }
}
