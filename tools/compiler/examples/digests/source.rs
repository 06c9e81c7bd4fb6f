//! CUDA sources without what a compiler does not see: comments, spaces, and the names that a source gives to its own things.

use std::collections::{HashMap, HashSet};

/// Words before a name that say nothing of whether it is declared: a type follows them.
const SPECIFIERS: &str = "const static inline extern volatile constexpr \
    DEVICE __device__ __global__ __shared__ __forceinline__ __noinline__";
/// Words before a name that is used.
const STATEMENTS: &str = "return else case do goto sizeof alignas new delete public private namespace operator";
/// Words that are followed by the name of a type.
const INTRODUCE_TYPES: &str = "struct class union enum typename using";
const TYPES: &str = "void bool char short int long signed unsigned float double auto";
const OTHER_KEYWORDS: &str = "if for while switch break continue default template typedef true false \
    asm this static_assert";
const BUILT_IN: &str = "threadIdx blockIdx blockDim gridDim warpSize";

/// The tokens of a source, a space between them. Names that it declares are numbered in order of appearance, so that another
/// name for a function, a parameter or a variable gives the same tokens; `entry`, its kernel, is `$entry`. A declaration that is
/// not recognised (the second of `int a, b`, say) keeps its name.
pub fn normalised(source: &str, entry: &str) -> String {
    let mut result = String::with_capacity(source.len() / 2);
    let mut names: HashMap<&str, Option<usize>> = HashMap::new();
    let mut types: HashSet<&str> = TYPES.split(' ').collect();
    // The last two tokens; of a directive none but that it is one.
    let (mut before, mut last) = ("", "");
    let (mut directive, mut typedef) = (false, false);
    let mut tokens = Tokens { rest: source }.peekable();
    let mut count = 0;
    while let Some(token) = tokens.next() {
        if token == "\n" {
            if std::mem::take(&mut directive) {
                result.push('\n');
                (before, last) = ("", "");
            }
            continue;
        }
        directive |= token == "#";
        typedef = (typedef || token == "typedef") && token != ";";
        if token == entry {
            result.push_str("$entry");
        } else if is_name(token) && !is_known(token) {
            let name = *names.entry(token).or_insert_with(|| {
                let called = tokens.peek() == Some(&"(");
                let introduces = has(INTRODUCE_TYPES, last) || typedef && tokens.peek() == Some(&";");
                let declared = match last {
                    "define" => directive,
                    _ if directive => false,
                    "*" | "&" => types.contains(before) && !called,
                    _ => introduces || is_name(last) && !precedes_use(last),
                };
                if introduces {
                    types.insert(token);
                }
                declared.then(|| {
                    count += 1;
                    count
                })
            });
            match name {
                Some(number) => result.push_str(&format!("${number}")),
                None => result.push_str(token),
            }
        } else {
            result.push_str(token);
        }
        result.push(' ');
        (before, last) = (last, token);
    }
    result
}

fn has(words: &str, name: &str) -> bool {
    words.split(' ').any(|word| word == name)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Whether a name is the language's or CUDA's.
fn is_known(name: &str) -> bool {
    let vector = name.strip_suffix(['1', '2', '3', '4']).map(|base| base.strip_prefix('u').unwrap_or(base));
    name.starts_with("__")
        || vector.is_some_and(|base| ["char", "short", "int", "long", "longlong", "float", "double"].contains(&base))
        || [SPECIFIERS, STATEMENTS, INTRODUCE_TYPES, TYPES, OTHER_KEYWORDS, BUILT_IN]
            .iter()
            .any(|words| has(words, name))
}

/// Whether a name behind this one is used and not declared.
fn precedes_use(name: &str) -> bool {
    [SPECIFIERS, STATEMENTS, OTHER_KEYWORDS].iter().any(|words| has(words, name))
}

/// Names, numbers, literals, single punctuation marks, and ends of lines; comments and continued lines are left out.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            let rest = self.rest.trim_start_matches([' ', '\t', '\r']);
            let comment = match rest.as_bytes() {
                [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => rest.find("*/").map_or(rest.len(), |end| end + 2),
                [b'\\', b'\n', ..] => 2,
                _ => {
                    self.rest = rest;
                    break;
                }
            };
            self.rest = &rest[comment..];
        }
        let first = self.rest.chars().next()?;
        let word = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let end = match first {
            '"' | '\'' => {
                let mut escaped = false;
                let closing = self.rest[1..].find(|char| {
                    let closes = char == first && !escaped;
                    escaped = char == '\\' && !escaped;
                    closes
                });
                closing.map_or(self.rest.len(), |closing| closing + 2)
            }
            _ if first.is_ascii_digit() => self.rest.find(|char| !word(char) && char != '.').unwrap_or(self.rest.len()),
            _ if word(first) => self.rest.find(|char| !word(char)).unwrap_or(self.rest.len()),
            _ => first.len_utf8(),
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
typedef float f32;
struct Pair { f32 low; f32 high; };
#define LIMIT 4  // of what
__device__ f32 scale(f32 x, const Pair* pair) { return expf(x) * pair->low + LIMIT; }
extern "C" __global__ void run(const f32* __restrict__ from, f32* to) {
    asm volatile("bar.sync 0;" ::: "memory");
    for (int i = threadIdx.x; i < 8; ++i) to[i] = scale(from[i], 0);
}
"#;

    #[test]
    fn comments_spaces_and_own_names_do_not_count() {
        let other = SOURCE
            .replace("// of what", "/* anything */")
            .replace("scale", "scaled")
            .replace("Pair", "Two")
            .replace("LIMIT", "BOUND")
            .replace("from", "source")
            .replace("run", "kernel")
            .replace("; i", ";\n  i")
            .replace("f32", "single");
        assert_ne!(SOURCE, other);
        assert_eq!(normalised(SOURCE, "run"), normalised(&other, "kernel"));
    }

    #[test]
    fn what_is_computed_counts() {
        let all = normalised(SOURCE, "run");
        for (from, to) in [
            ("expf", "logf"),
            ("i < 8", "i < 9"),
            ("threadIdx", "blockIdx"),
            ("bar.sync 0", "bar.sync 1"),
            ("LIMIT 4", "LIMIT 5"),
            ("to[i] =", "to[0] ="),
            ("pair->low", "pair->high"),
            ("f32 low; f32 high", "f32 high; f32 low"),
            ("f32 high;", "int high;"),
            ("float f32", "double f32"),
            ("++i", "--i"),
        ] {
            let changed = SOURCE.replacen(from, to, 1);
            assert_ne!(changed, SOURCE);
            assert_ne!(normalised(&changed, "run"), all, "{from} → {to}");
        }
    }
}
