//! `--shape`: the extents of inputs, in one shape or in several.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Extents of inputs by name.
pub type Shape = Vec<(String, Vec<usize>)>;

/// The shapes that `--shape` options give, at least one. An option with several extents, separated by commas, says what its input
/// has in the first shape, the second and so on; one with a single extent holds for all of them.
pub fn parse(options: &[String]) -> Result<Vec<Shape>> {
    let mut inputs: Vec<(&str, Vec<Vec<usize>>)> = Vec::new();
    let mut most: Option<(&str, usize)> = None;
    for text in options {
        let (input, values) = text.rsplit_once('=').with_context(|| format!("--shape {text}: write NAME=VALUE"))?;
        if inputs.iter().any(|(given, _)| *given == input) {
            bail!(
                "--shape names input '{input}' twice; further shapes stand behind commas: {input}=1x3x320x320,1x3x640x640"
            );
        }
        let all = values.split(',').map(|value| extents(text, value)).collect::<Result<Vec<_>>>()?;
        if let Some(other) = all.iter().find(|extents| extents.len() != all[0].len()) {
            let (first, other) = (all[0].len(), other.len());
            bail!("--shape {text}: {first} and {other} dimensions; all shapes of an input have equally many");
        }
        match most {
            Some((other, count)) if all.len() > 1 && all.len() != count => bail!(
                "--shape {text} has {} shapes, but --shape {other} has {count}: the first of each belong together, then the \
                 second, so give equally many, or one for all",
                all.len()
            ),
            _ if all.len() > 1 => most = Some((text, all.len())),
            _ => {}
        }
        inputs.push((input, all));
    }
    let count = most.map_or(1, |(_, count)| count);
    let shape = |number: usize| -> Shape {
        let extents = |all: &[Vec<usize>]| all[if all.len() == 1 { 0 } else { number }].clone();
        inputs.iter().map(|(input, all)| ((*input).to_owned(), extents(all))).collect()
    };
    let shapes: Vec<Shape> = (0..count).map(shape).collect();
    for (number, shape) in shapes.iter().enumerate() {
        if let Some(earlier) = shapes[..number].iter().position(|earlier| earlier == shape) {
            bail!("--shape gives the same shape as number {} and as number {}: leave one out", earlier + 1, number + 1);
        }
    }
    Ok(shapes)
}

/// As [`parse`], where there can be one shape only; `why` says so, and what to do instead.
pub fn single(options: &[String], why: &str) -> Result<Shape> {
    let mut shapes = parse(options)?;
    if shapes.len() > 1 {
        bail!("--shape: {why}");
    }
    Ok(shapes.pop().unwrap_or_default())
}

/// A shape in the words of the option.
pub fn describe(shape: &Shape) -> String {
    shape.iter().map(|(name, extents)| floe::shapes::words(name, extents)).collect::<Vec<_>>().join(", ")
}

/// The reports of all shapes as text, each under its shape where there are several.
pub fn text<T>(reports: &[(Shape, T)], text: impl Fn(&T) -> String) -> String {
    let [(_, report)] = reports else {
        let all = reports.iter().map(|(shape, report)| format!("{}\n{}", describe(shape), text(report)));
        return all.collect::<Vec<_>>().join("\n");
    };
    text(report)
}

/// As JSON: one report by itself, and of several an object with the list `shapes`, in which each also has its `shape`.
pub fn json<T>(reports: &[(Shape, T)], json: impl Fn(&T) -> Value) -> Value {
    let [(_, report)] = reports else {
        let one = |(shape, report): &(Shape, T)| {
            let mut report = json(report);
            report["shape"] = shape.iter().map(|(name, extents)| (name.clone(), json!(extents))).collect();
            report
        };
        return json!({"shapes": reports.iter().map(one).collect::<Vec<_>>()});
    };
    json(report)
}

fn extents(option: &str, value: &str) -> Result<Vec<usize>> {
    let extents = value.split('x').filter(|_| !value.is_empty());
    let extents: Result<Vec<usize>, _> = extents.map(str::parse).collect();
    let extents = extents.with_context(|| format!("--shape {option}: write extents as 1x3x224x224"))?;
    if extents.contains(&0) {
        bail!("--shape {option}: an extent of 0 leaves nothing to compute");
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[&str]) -> Result<Vec<Shape>, String> {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        parse(&options).map_err(|error| error.to_string())
    }

    fn shape(inputs: &[(&str, &[usize])]) -> Shape {
        inputs.iter().map(|&(name, extents)| (name.to_owned(), extents.to_vec())).collect()
    }

    #[test]
    fn shapes_are_counted_across_inputs() {
        assert_eq!(parsed(&[]), Ok(vec![Shape::new()]));
        assert_eq!(parsed(&["sr="]), Ok(vec![shape(&[("sr", &[])])]));
        let expected = vec![
            shape(&[("ids", &[1, 64]), ("mask", &[1, 64]), ("scale", &[1])]),
            shape(&[("ids", &[1, 128]), ("mask", &[1, 128]), ("scale", &[1])]),
        ];
        assert_eq!(parsed(&["ids=1x64,1x128", "mask=1x64,1x128", "scale=1"]), Ok(expected));
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        for (options, said) in [
            (&["x=1x2,1x3", "y=1,2,3"][..], "--shape y=1,2,3 has 3 shapes, but --shape x=1x2,1x3 has 2"),
            (&["x=1x2,1x3x4"], "2 and 3 dimensions"),
            (&["x=1x2,"], "2 and 0 dimensions"),
            (&["x=1x2,1x3,1x2"], "the same shape as number 1 and as number 3"),
            (&["x=1x2", "x=1x3"], "names input 'x' twice; further shapes stand behind commas"),
            (&["x=1x2,1x0"], "an extent of 0"),
            (&["x=1x2,1xn"], "write extents as"),
            (&["x"], "write NAME=VALUE"),
        ] {
            let error = parsed(options).unwrap_err();
            assert!(error.contains(said), "{options:?}: {error}");
        }
        let error = single(&["x=1,2".to_owned()], "one shape here").unwrap_err().to_string();
        assert_eq!(error, "--shape: one shape here");
    }
}
