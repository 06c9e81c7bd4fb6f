use super::*;
use proptest::prelude::*;

const START: Place = Place { line: 3, column: 10 };

/// `n` is 7, `list` is 10, 20, `x` has 6 elements of 2 bytes.
fn find(name: &Name) -> Option<i64> {
    match name {
        Name::Number(name) => (name == "n").then_some(7),
        Name::Element(name, index) => [10, 20].get(*index).copied().filter(|_| name == "list"),
        Name::Elements(name) => (name == "x").then_some(6),
        Name::SizeOf(name) => (name == "x").then_some(2),
    }
}

fn value(text: &str) -> std::result::Result<i64, String> {
    let value = Expression::parse(text, START).and_then(|expression| expression.value(&find));
    value.map_err(|error| error.to_string())
}

#[test]
fn arithmetic_is_what_it_looks_like() {
    for (text, expected) in [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("24 / 4 / 3", 2),
        ("- -n", 7),
        ("-n * 2", -14),
        ("ceil_div(n, 2)", 4),
        ("floor_div(n, 2)", 3),
        ("ceil_div(-7, 2)", -3),
        ("floor_div(-7, 2)", -4),
        ("-7 % 4", 1),
        ("7 % -4", -1),
        ("min(n, 3) + max(n, 30)", 33),
        ("list[0] + list[1]", 30),
        ("elements(x) * size_of(x)", 12),
        ("\n 2\n *\n 3 ", 6),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn errors_tell_where_they_are() {
    for (text, expected) in [
        ("n / 2", "line 3, column 12: 7 is not a multiple of 2; floor_div and ceil_div round"),
        ("n / (n - 7)", "line 3, column 12: 7 is divided by zero"),
        ("n %\n(n - 7)", "line 3, column 12: 7 is divided by zero"),
        ("1 +\n 9223372036854775807", "line 3, column 12: the result for 1 and 9223372036854775807 is beyond 64 bits"),
        ("9223372036854775808", "line 3, column 10: 9223372036854775808 is beyond 64 bits"),
        ("1 +", "line 3, column 13: the text ends in place of a number, a name or '('"),
        ("1 + +", "line 3, column 14: found '+' in place of a number, a name or '('"),
        ("(1", "line 3, column 12: the text ends in place of ')'"),
        ("1 2", "line 3, column 12: found '2' in place of an operator or the end"),
        ("min(1)", "line 3, column 10: min takes two numbers, not 1"),
        ("elements(1)", "line 3, column 10: elements takes the name of a tensor"),
        ("2n", "line 3, column 10: '2n' is no whole number"),
        ("list[n]", "line 3, column 15: 'n' is no whole number"),
        (
            "sqrt(4)",
            "line 3, column 10: no function is called 'sqrt'; there are floor_div, ceil_div, min, max, elements and size_of",
        ),
    ] {
        assert_eq!(value(text), Err(expected.to_owned()), "{text}");
    }
    let deep = "(".repeat(100);
    assert!(value(&deep).unwrap_err().ends_with("more than 64 expressions inside each other"));
    assert!(value(&"-".repeat(100)).unwrap_err().ends_with("more than 64 expressions inside each other"));
    assert!(value(&"1+".repeat(600)).unwrap_err().ends_with("an expression has at most 1000 bytes"));
}

#[test]
fn a_list_is_in_brackets() {
    let list = |text: &str| Expression::parse_list(text, START).map(|list| list.len()).map_err(|e| e.to_string());
    assert_eq!(list("[]"), Ok(0));
    assert_eq!(list("[n, c * r * r, h / r, min(w, 2)]"), Ok(4));
    assert_eq!(list("[n,]"), Err("line 3, column 13: found ']' in place of a number, a name or '('".into()));
    assert_eq!(list("n"), Err("line 3, column 10: found 'n' in place of '['".into()));
    assert_eq!(list("[n c]"), Err("line 3, column 13: found 'c' in place of ',' or ']'".into()));
}

/// Texts that are expressions, with their value in 128 bits; `None` where one of them is beyond 64 bits or a division impossible.
fn expressions() -> impl Strategy<Value = (String, Option<i128>)> {
    let leaf = prop_oneof![0i128..20, Just(i128::from(i64::MAX))].prop_map(|n| (n.to_string(), Some(n)));
    leaf.prop_recursive(6, 40, 2, |inner| {
        (inner.clone(), inner, 0..8usize).prop_map(|((a, x), (b, y), operation)| {
            let text = match operation {
                0 => format!("({a} + {b})"),
                1 => format!("({a} - {b})"),
                2 => format!("({a} * {b})"),
                3 => format!("({a} / {b})"),
                4 => format!("({a} % {b})"),
                5 => format!("ceil_div({a}, {b})"),
                6 => format!("floor_div({a}, {b})"),
                _ => format!("max(-{a}, {b})"),
            };
            let value = (|| {
                let (x, y) = (x?, y?);
                let floor =
                    |x: i128, y: i128| (y != 0).then(|| x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0));
                Some(match operation {
                    0 => x + y,
                    1 => x - y,
                    2 => x * y,
                    3 => Some(floor(x, y)?).filter(|quotient| quotient * y == x)?,
                    4 => x - floor(x, y)? * y,
                    5 => -floor(-x, y)?,
                    6 => floor(x, y)?,
                    _ => y.max(-x),
                })
            })();
            (text, value.filter(|value| i64::try_from(*value).is_ok()))
        })
    })
}

proptest! {
    #[test]
    fn nothing_panics(text in "[-+*/%()\\[\\], \n0-9a-z_é]{0,60}|.{0,60}") {
        let _ = value(&text);
        let _ = Expression::parse_list(&text, START);
    }

    #[test]
    fn values_are_those_of_wider_arithmetic((text, expected) in expressions()) {
        if text.len() <= MAX_LENGTH {
            prop_assert_eq!(value(&text).ok().map(i128::from), expected, "{}", text);
        }
    }
}
