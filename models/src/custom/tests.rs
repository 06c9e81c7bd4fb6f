use super::*;
use proptest::prelude::*;

/// Every kind of field.
const PILLARS: &str = r#"
domain = "example.radar"
name = "Shuffle"
versions = [1, 2]

[[input]]
name = "x"
types = ["f32", "i32"]
shape = "[n, c * r * r, h, w]"

[[input]]
name = "places"
types = ["i64"]
shape = "[c, 2 * n]"

[[attribute]]
name = "r"
type = "int"
default = 2
least = 1

[[attribute]]
name = "sizes"
type = "ints"
length = 2
default = [3, 4]

[[attribute]]
name = "scale"
type = "float"

[[attribute]]
name = "weights"
type = "floats"
length = 2
default = [0.5, 1.5]

[[attribute]]
name = "mode"
type = "choice"
choices = ["near", "far"]
default = "far"

[[output]]
name = "y"
type = "x"
shape = "[n, c, h * r, w * r - mode + sizes[1]]"
f16 = false

[[output]]
name = "count"
type = "i64"
shape = "[elements(x) / n]"

[gpu]
source = "shuffle.cu"
function = "shuffle"
grid = "[ceil_div(elements(y), 128)]"
block = "[128]"
shared = "size_of(y) * 128"
workspace = "4 * n"

[host]
workspace = "8 * c"
"#;

/// [`PILLARS`] with a third input, which may be left out.
fn with_input(shape: &str, default: &str) -> String {
    let input = format!("[[input]]\nname = \"bias\"\ntypes = [\"i64\"]\nshape = \"{shape}\"\ndefault = {default}\n\n");
    let at = PILLARS.find("[[attribute]]").unwrap();
    format!("{}{input}{}", &PILLARS[..at], &PILLARS[at..])
}

fn parse(text: &str) -> Result<Description, String> {
    let source = |file: &str| Ok(format!("// {file}"));
    Description::parse(text, Path::new("shuffle.toml"), &source).map_err(|error| error.to_string())
}

fn custom(description: Description) -> Custom {
    let values = description.attributes.iter().map(|attribute| attribute.default.clone().unwrap_or(Value::Real(0.25)));
    Custom { values: values.collect(), description: Arc::new(description) }
}

fn inputs() -> [Fact; 2] {
    [Fact::new(DType::F32, &[2, 12, 5, 7]), Fact::new(DType::I64, &[3, 4])]
}

fn inferred(text: &str, inputs: &[Fact]) -> Result<Vec<Fact>, String> {
    let inputs: Vec<&Fact> = inputs.iter().collect();
    custom(parse(text)?).infer(&inputs).map_err(|error| error.to_string())
}

#[test]
fn shapes_and_launches_follow_from_the_inputs() {
    let facts = inputs();
    let [x, places] = &facts;
    let custom = custom(parse(PILLARS).unwrap());
    let outputs = custom.infer(&[x, places]).unwrap();
    assert_eq!(outputs, [Fact::new(DType::F32, &[2, 3, 10, 17]), Fact::new(DType::I64, &[420])]);
    assert_eq!(custom.dimensions(&[x, places]).unwrap(), [("c", 3), ("h", 5), ("n", 2), ("w", 7)]);
    assert_eq!(custom.host_workspace(&[x, places], &[&outputs[0], &outputs[1]]), Ok(24));
    let stored = [DType::F16, DType::I64, DType::F32, DType::I64];
    let launch = custom.launch(&[x, places], &[&outputs[0], &outputs[1]], &stored).unwrap();
    let expected = Launch { grid: [8, 1, 1], block: [128, 1, 1], shared: 512, workspace: Some(8), operations: 0 };
    assert_eq!(launch, expected);
    let numbers = [
        Number::Integer(2),
        Number::Integer(3),
        Number::Integer(4),
        Number::Real(0.25),
        Number::Real(0.5),
        Number::Real(1.5),
        Number::Integer(1),
    ];
    assert_eq!(custom.numbers(), numbers);
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    for (x, places, expected) in [
        (&[2usize, 12, 5][..], &[3usize, 4][..], "input 'x' is 2x12x5; its description gives it 4 dimensions"),
        (&[2, 12, 5, 7], &[3, 5], "'shuffle.toml', line 14, column 16: dimension 1 of input 'places' is 5, not 4"),
        (&[2, 13, 5, 7], &[3, 4], "'shuffle.toml', line 9, column 20: dimension 1 of input 'x' is 13, not 12"),
    ] {
        let facts = [Fact::new(DType::F32, x), Fact::new(DType::I64, places)];
        assert_eq!(inferred(PILLARS, &facts), Err(expected.to_owned()));
    }
    let [_, places] = inputs();
    let facts = [Fact::new(DType::F16, &[2, 12, 5, 7]), places];
    assert_eq!(inferred(PILLARS, &facts), Err("input 'x' is f16; its description allows f32, i32".to_owned()));
}

#[test]
fn inputs_that_are_left_out_have_shapes_of_the_others() {
    let custom = custom(parse(&with_input("[w, 2 * n]", "7")).unwrap());
    let [x, places] = &inputs();
    let bias = Fact::new(DType::I64, &[7, 4]);
    assert_eq!(custom.description.inputs[2].default, Some(7.0));
    assert_eq!(custom.left_out(&[Some(x), Some(places), None]), Ok(vec![None, None, Some(bias.clone())]));
    assert_eq!(custom.left_out(&[Some(x), Some(places), Some(&bias)]), Ok(vec![None; 3]));
    let odd = Fact::new(DType::F32, &[2, 13, 5, 7]);
    let error = custom.left_out(&[Some(&odd), Some(places), None]).unwrap_err();
    assert!(error.to_string().contains("dimension 1 of input 'x' is 13, not 12"), "{error}");
}

#[test]
fn defaults_of_inputs_are_checked_when_they_are_read() {
    for (shape, default, expected) in [
        ("[q]", "1", "line 19, column 11: 'q' is neither a dimension of an input without a default nor an attribute"),
        ("[elements(bias)]", "1", "'bias' is no tensor that is known here"),
        ("[...]", "1", "[...] stands for the shape of an input without a default"),
        ("[w]", "0.5", "line 20, column 11: the default is no number of type i64"),
        ("[w]", "\"1\"", "line 20, column 11: the default is no number of type i64"),
    ] {
        let error = parse(&with_input(shape, default)).expect_err(default);
        assert!(error.starts_with("'shuffle.toml'") && error.contains(expected), "{shape}, {default}: {error}");
    }
}

#[test]
fn impossible_shapes_are_errors_with_a_place() {
    for (shape, expected) in [
        ("[n - 2]", "line 47, column 13: dimension 0 of output 'y' is 0, outside 1 to 2147483647"),
        ("[n - 3]", "line 47, column 13: dimension 0 of output 'y' is -1, outside 1 to 2147483647"),
        ("[n * 2147483647]", "line 47, column 13: dimension 0 of output 'y' is 4294967294, outside 1 to 2147483647"),
        ("[n / (c - 3)]", "line 47, column 13: 2 is divided by zero"),
        ("[1, h / n]", "line 47, column 16: 5 is not a multiple of 2; floor_div and ceil_div round"),
        ("[w * 9223372036854775807]", "line 47, column 13: the result for 7 and 9223372036854775807 is beyond 64 bits"),
    ] {
        let text = PILLARS.replace("[n, c, h * r, w * r - mode + sizes[1]]", shape);
        assert_eq!(inferred(&text, &inputs()), Err(format!("'shuffle.toml', {expected}")), "{shape}");
    }
}

#[test]
fn descriptions_are_checked_when_they_are_read() {
    for (from, to, expected) in [
        ("domain = \"example.radar\"", "domain = \"\"", "line 2, column 10: '' is no domain: it is empty or too long"),
        ("name = \"Shuffle\"", "name = \"a b\"", "line 3, column 8: 'a b' is no operator's name"),
        ("\"example.radar\"\nname = \"Shuffle\"", "\"ai.onnx\"\nname = \"Conv\"", "Floe has this operator"),
        ("versions = [1, 2]", "versions = []", "line 4, column 12: versions are those of"),
        ("versions = [1, 2]", "versions = [1]\nfast = true", "unknown field `fast`"),
        ("\"f32\", \"i32\"", "\"f32\", \"f8e4m3\"", "line 8, column 9: 'f8e4m3' is no element type"),
        ("name = \"x\"", "name = \"int\"", "line 7, column 8: 'int' is no name: C++ or Floe uses it already"),
        ("name = \"places\"", "name = \"r\"", "line 17, column 8: 'r' is already the name of something else"),
        (
            "[c, 2 * n]",
            "[c, 2 * m]",
            "line 14, column 18: 'm' is neither a dimension of an input without a default nor",
        ),
        ("[c, 2 * n]", "[c, x]", "line 14, column 14: 'x' is a tensor, not a number"),
        ("[c, 2 * n]", "[c, 2 *]", "line 14, column 17: found ']' in place of a number, a name or '('"),
        ("sizes[1]", "sizes[2]", "line 47, column 39: 'sizes' has 2 elements"),
        ("sizes[1]", "sizes", "line 47, column 39: 'sizes' is a list; write sizes[0]"),
        ("sizes[1]", "scale", "line 47, column 39: 'scale' is no integer"),
        ("sizes[1]", "size_of(x)", "line 47, column 39: a shape does not depend on how elements are stored"),
        ("elements(x)", "elements(y)", "'y' is no tensor that is known here"),
        ("default = 2\n", "default = 0\n", "line 19, column 11: the default of 'r' is 0, outside 1 to"),
        ("default = 2\n", "default = 2.0\n", "line 19, column 11: the default of 'r' is not an integer"),
        ("default = [3, 4]", "default = [3]", "the default of 'sizes' is not 2 integers"),
        ("default = \"far\"", "default = \"away\"", "the default of 'mode' is 'away', none of near, far"),
        ("length = 2\ndefault = [3, 4]", "default = [3, 4]", "a list has a `length`, from 1 to 32"),
        ("type = \"float\"", "type = \"float\"\nlength = 2", "an attribute of type float has no length"),
        ("type = \"float\"", "type = \"real\"", "'real' is none of the types int, float, ints, floats and choice"),
        ("type = \"x\"", "type = \"z\"", "'z' is neither an input nor one of f32"),
        (
            "shape = \"[elements(x) / n]\"",
            "shape = \"[...]\"",
            "[...] stands for the shape of an input without a default",
        ),
        ("source = \"shuffle.cu\"", "source = \"../shuffle.cu\"", "the source is a file beside the description"),
        ("block = \"[128]\"", "block = \"[1, 1, 1, 1]\"", "a grid or block has 1 to 3 extents, not 4"),
        ("\nfunction = \"shuffle\"", "\nfunction = \"shu ffle\"", "'shu ffle' is no name"),
        (
            "shape = \"[c, 2 * n]\"",
            "shape = \"[c, 1, 1, 1, 1, 1, 1, 1, 1]\"",
            "a tensor has at most 8 dimensions, not 9",
        ),
    ] {
        assert!(PILLARS.contains(from), "{from}");
        let error = parse(&PILLARS.replacen(from, to, 1)).expect_err(to);
        assert!(error.starts_with("'shuffle.toml'") && error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn an_element_wise_operator_has_one_shape() {
    let text = r#"
domain = "d"
name = "E"
versions = [1]
element_wise = true
[[input]]
name = "a"
types = ["f32"]
shape = "[...]"
[[input]]
name = "b"
types = ["f32"]
shape = "[...]"
[[output]]
name = "y"
type = "a"
shape = "[...]"
"#;
    let pair = |b: &[usize]| [Fact::new(DType::F32, &[2, 3]), Fact::new(DType::F32, b)];
    assert_eq!(inferred(text, &pair(&[2, 3])), Ok(vec![Fact::new(DType::F32, &[2, 3])]));
    assert_eq!(inferred(text, &pair(&[3, 2])), Err("input 'b' is 3x2, but an earlier one is 2x3".to_owned()));
    let fixed = text.replacen("type = \"a\"\nshape = \"[...]\"", "type = \"a\"\nshape = \"[6]\"", 1);
    assert_eq!(
        inferred(&fixed, &pair(&[2, 3])),
        Err("an element-wise operator has one shape, not 2x3 and 6".to_owned())
    );
}

#[test]
fn folders_hold_descriptions_of_different_operators() {
    let folder = tempfile::tempdir().unwrap();
    let load = || Operators::load([folder.path()]).map(|operators| operators.0.len()).map_err(|e| e.to_string());
    assert!(load().unwrap_err().ends_with("holds no description of an operator (*.toml)"));
    std::fs::write(folder.path().join("one.toml"), PILLARS).unwrap();
    assert!(load().unwrap_err().contains("shuffle.cu': No such file"));
    std::fs::write(folder.path().join("shuffle.cu"), "").unwrap();
    assert_eq!(load(), Ok(1));
    std::fs::write(folder.path().join("two.toml"), PILLARS.replace("[1, 2]", "[3]")).unwrap();
    assert_eq!(load(), Ok(2));
    std::fs::write(folder.path().join("two.toml"), PILLARS.replace("[1, 2]", "[2, 3]")).unwrap();
    assert!(load().unwrap_err().ends_with("both describe version 2 of example.radar.Shuffle"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any part of the text in place of any other: an error or a description, and shapes of it or an error.
    #[test]
    fn damaged_descriptions_do_no_harm(at in 0..PILLARS.len(), from in 0..PILLARS.len(), length in 0usize..30) {
        let bounds = |start: usize| {
            let end = (start + length).min(PILLARS.len());
            PILLARS.floor_char_boundary(start)..PILLARS.floor_char_boundary(end)
        };
        let mut text = PILLARS.to_owned();
        text.replace_range(bounds(at), &PILLARS[bounds(from)]);
        if let Ok(description) = parse(&text) {
            let facts = inputs();
            let inputs: Vec<&Fact> = facts.iter().collect();
            let custom = custom(description);
            if let Ok(outputs) = custom.infer(&inputs) {
                let outputs: Vec<&Fact> = outputs.iter().collect();
                let _ = custom.launch(&inputs, &outputs, &[DType::F32; 4]);
                let _ = custom.host_workspace(&inputs, &outputs);
            }
        }
    }
}
