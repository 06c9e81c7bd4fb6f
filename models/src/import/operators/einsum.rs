//! Einsum: operands are contracted from left to right, each pair by a matrix product.

use super::super::{builder::Builder, node::NodeView};
use crate::{
    DType, Op, Problem, TensorId,
    infer::show,
    op::{Binary, Reduction},
};

/// A dimension's label: a letter, or a dimension that an ellipsis stands for, counted from its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Letter(char),
    Ellipsis(usize),
}

/// A value with a label for each dimension, all different.
#[derive(Clone)]
struct Term {
    value: TensorId,
    labels: Vec<Label>,
}

impl Term {
    fn position(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|&other| other == label)
    }
}

pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let equation: String = node.string("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let inputs = node.all_inputs()?;
    let lists: Vec<&str> = left.split(',').collect();
    if lists.len() != inputs.len() {
        return Err(Problem::Invalid(format!("equation '{equation}' for {} operands", inputs.len())));
    }
    let mut terms = Vec::new();
    for (&value, list) in inputs.iter().zip(lists) {
        let labels = labels(list, Some(builder.shape(value).len()), &equation)?;
        terms.push(distinct(builder, value, labels)?);
    }
    let dots = terms.iter().flat_map(|term| &term.labels).filter_map(|label| match label {
        Label::Ellipsis(number) => Some(number + 1),
        Label::Letter(_) => None,
    });
    let dots = dots.max().unwrap_or(0);
    let output = match right {
        Some(list) => labels_with(list, dots, &equation)?,
        None => implicit(left, dots),
    };
    for &label in &output {
        if output.iter().filter(|&&other| other == label).count() > 1
            || !terms.iter().any(|term| term.labels.contains(&label))
        {
            return Err(Problem::Invalid(format!(
                "the result of equation '{equation}' has a label twice or from nowhere"
            )));
        }
    }
    let mut terms = terms.into_iter();
    let Some(mut result) = terms.next() else { return Err(Problem::Invalid("no operand".into())) };
    let mut rest: Vec<Term> = terms.collect();
    while !rest.is_empty() {
        let next = rest.remove(0);
        let later: Vec<Label> = output.iter().chain(rest.iter().flat_map(|term| &term.labels)).copied().collect();
        result = contract(builder, &result, &next, &later)?;
    }
    let result = summed(builder, &result, &output)?;
    arranged(builder, &result, &output)
}

/// The labels of an operand of known rank.
fn labels(list: &str, rank: Option<usize>, equation: &str) -> Result<Vec<Label>, Problem> {
    let letters = list.replace("...", "").chars().count();
    let dots = rank.and_then(|rank| rank.checked_sub(letters)).filter(|&dots| dots == 0 || list.contains("..."));
    let dots = dots.ok_or_else(|| Problem::Invalid(format!("'{list}' in equation '{equation}' for rank {rank:?}")))?;
    labels_with(list, dots, equation)
}

/// The labels of a list in which an ellipsis stands for `dots` dimensions.
fn labels_with(list: &str, dots: usize, equation: &str) -> Result<Vec<Label>, Problem> {
    let misfit = || Problem::Invalid(format!("'{list}' in equation '{equation}' is no list of labels"));
    let (before, after) = match list.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (list, None),
    };
    let letters = |part: &str| -> Result<Vec<Label>, Problem> {
        let letter = |c: char| c.is_ascii_alphabetic().then_some(Label::Letter(c)).ok_or_else(misfit);
        part.chars().map(letter).collect()
    };
    let mut labels = letters(before)?;
    if let Some(after) = after {
        labels.extend((0..dots).rev().map(Label::Ellipsis));
        labels.extend(letters(after)?);
    }
    Ok(labels)
}

/// Without a right side: the ellipsis, then every label that appears once, in alphabetical order.
fn implicit(left: &str, dots: usize) -> Vec<Label> {
    let mut letters: Vec<char> = left.chars().filter(char::is_ascii_alphabetic).collect();
    letters.sort_unstable();
    let once = letters.iter().filter(|letter| letters.iter().filter(|other| other == letter).count() == 1);
    (0..dots).rev().map(Label::Ellipsis).chain(once.map(|&letter| Label::Letter(letter))).collect()
}

/// A term with different labels: a label that a term has twice selects the diagonal.
fn distinct(builder: &mut Builder, value: TensorId, labels: Vec<Label>) -> Result<Term, Problem> {
    let mut term = Term { value, labels };
    while let Some((first, second)) = repeated(&term.labels) {
        let shape = builder.shape(term.value).to_vec();
        let extent = shape[first];
        if shape[second] != extent {
            return Err(Problem::Invalid(format!("one label for extents {extent} and {}", shape[second])));
        }
        // Both dimensions last, as one; its diagonal lies extent + 1 apart.
        let mut order: Vec<usize> = (0..shape.len()).filter(|&d| d != first && d != second).collect();
        let mut labels: Vec<Label> = order.iter().map(|&d| term.labels[d]).collect();
        labels.push(term.labels[first]);
        order.extend([first, second]);
        let moved = transposed(builder, term.value, order)?;
        let mut merged = builder.shape(moved)[..shape.len() - 2].to_vec();
        merged.push(extent * extent);
        let merged = builder.reshape(moved, &merged)?;
        let place = |i: i64| i * (extent as i64 + 1);
        let diagonal = builder.generated(DType::I64, &[extent], || (0..extent as i64).map(place).collect())?;
        let value = builder.emit(Op::Gather { axis: shape.len() - 2 }, &[merged, diagonal])?;
        term = Term { value, labels };
    }
    Ok(term)
}

fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    (0..labels.len()).find_map(|second| Some((labels[..second].iter().position(|&l| l == labels[second])?, second)))
}

/// Sums over the dimensions that nothing needs any more.
fn summed(builder: &mut Builder, term: &Term, needed: &[Label]) -> Result<Term, Problem> {
    let axes: Vec<usize> = (0..term.labels.len()).filter(|&d| !needed.contains(&term.labels[d])).collect();
    if axes.is_empty() {
        return Ok(term.clone());
    }
    let labels = term.labels.iter().filter(|label| needed.contains(label)).copied().collect();
    let value = builder.emit(Op::Reduce { kind: Reduction::Sum, axes, keep: false }, &[term.value])?;
    Ok(Term { value, labels })
}

/// The product of two terms, summed over the dimensions that nothing needs any more.
fn contract(builder: &mut Builder, a: &Term, b: &Term, later: &[Label]) -> Result<Term, Problem> {
    let shared = |label: &Label| a.labels.contains(label) && b.labels.contains(label);
    let needed = |other: &Term| -> Vec<Label> { later.iter().chain(&other.labels).copied().collect() };
    let (a, b) = (summed(builder, a, &needed(b))?, summed(builder, b, &needed(a))?);
    let extents = |term: &Term, labels: &[Label]| -> Vec<usize> {
        let shape = builder.shape(term.value);
        labels.iter().map(|&label| term.position(label).map_or(1, |d| shape[d])).collect()
    };
    let inner: Vec<Label> = a.labels.iter().filter(|l| shared(l) && !later.contains(l)).copied().collect();
    let batch: Vec<Label> = a.labels.iter().filter(|l| shared(l) && later.contains(l)).copied().collect();
    // Where one side has an extent of 1, the other decides: only products that broadcast can express that.
    if inner.is_empty() || extents(&a, &inner) != extents(&b, &inner) || extents(&a, &batch) != extents(&b, &batch) {
        let mut labels = a.labels.clone();
        labels.extend(b.labels.iter().filter(|l| !a.labels.contains(l)));
        let spread = |builder: &mut Builder, term: &Term| {
            let present: Vec<Label> = labels.iter().filter(|l| term.labels.contains(l)).copied().collect();
            let value = arranged(builder, term, &present)?;
            let mut given = builder.shape(value).iter();
            let shape: Vec<usize> = labels
                .iter()
                .map(|l| if term.labels.contains(l) { given.next().copied().unwrap_or(1) } else { 1 })
                .collect();
            builder.reshape(value, &shape)
        };
        let (x, y) = (spread(builder, &a)?, spread(builder, &b)?);
        let value = builder.binary(Binary::Mul, x, y)?;
        return summed(builder, &Term { value, labels }, later);
    }
    let own = |term: &Term| -> Vec<Label> { term.labels.iter().filter(|l| !shared(l)).copied().collect() };
    let (rows, columns) = (own(&a), own(&b));
    let [batches, m, k] = [&batch, &rows, &inner].map(|labels| extents(&a, labels));
    let n = extents(&b, &columns);
    let size = |extents: &[usize]| extents.iter().product::<usize>();
    let x = arranged(builder, &a, &[&batch[..], &rows, &inner].concat())?;
    let x = builder.reshape(x, &[&batches[..], &[size(&m), size(&k)]].concat())?;
    let y = arranged(builder, &b, &[&batch[..], &inner, &columns].concat())?;
    let y = builder.reshape(y, &[&batches[..], &[size(&k), size(&n)]].concat())?;
    let product = builder.emit(Op::MatMul, &[x, y])?;
    let value = builder.reshape(product, &[batches, m, n].concat())?;
    Ok(Term { value, labels: [batch, rows, columns].concat() })
}

/// The value with its dimensions in the order of `labels`, which are all of the term's.
fn arranged(builder: &mut Builder, term: &Term, labels: &[Label]) -> Result<TensorId, Problem> {
    let order: Option<Vec<usize>> = labels.iter().map(|&label| term.position(label)).collect();
    let order = order.filter(|order| order.len() == term.labels.len());
    let order = order.ok_or_else(|| {
        Problem::Invalid(format!("labels {labels:?} for a value {}", show(builder.shape(term.value))))
    })?;
    transposed(builder, term.value, order)
}

fn transposed(builder: &mut Builder, value: TensorId, permutation: Vec<usize>) -> Result<TensorId, Problem> {
    if permutation.iter().copied().eq(0..permutation.len()) {
        return Ok(value);
    }
    builder.emit(Op::Transpose { permutation }, &[value])
}
