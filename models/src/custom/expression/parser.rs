//! The parser of expressions, by descent: one function a rule of the grammar.

use super::{Expression, MAX_LENGTH, Name, Node, Operation, Place, Result, wrong};

/// Most parentheses, functions and signs inside each other.
const MAX_DEPTH: usize = 64;

/// Goes through the text of an expression, character by character.
pub(super) struct Parser<'t> {
    rest: &'t str,
    place: Place,
    depth: usize,
}

impl<'t> Parser<'t> {
    pub fn new(text: &'t str, place: Place) -> Result<Self> {
        if text.len() > MAX_LENGTH {
            return wrong(place, format!("an expression has at most {MAX_LENGTH} bytes"));
        }
        Ok(Self { rest: text, place, depth: 0 })
    }

    fn advance(&mut self, bytes: usize) {
        let (done, rest) = self.rest.split_at(bytes);
        for c in done.chars() {
            self.place = match c {
                '\n' => Place { line: self.place.line + 1, column: 1 },
                _ => Place { column: self.place.column + 1, ..self.place },
            };
        }
        self.rest = rest;
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        let spaces = self.rest.len() - self.rest.trim_start().len();
        self.advance(spaces);
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.advance(wanted.len_utf8());
        }
        found
    }

    pub fn expect(&mut self, wanted: char) -> Result<()> {
        match self.take(wanted) {
            true => Ok(()),
            false => self.unexpected(&format!("'{wanted}'")),
        }
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Result<T> {
        match self.peek() {
            Some(found) => wrong(self.place, format!("found '{}' in place of {wanted}", found.escape_debug())),
            None => wrong(self.place, format!("the text ends in place of {wanted}")),
        }
    }

    pub fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.unexpected("an operator or the end"),
        }
    }

    /// What goes one deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return wrong(self.place, format!("more than {MAX_DEPTH} expressions inside each other"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Expressions up to a closing bracket.
    pub fn list(&mut self, close: char) -> Result<Vec<Expression>> {
        let mut list = Vec::new();
        if self.take(close) {
            return Ok(list);
        }
        loop {
            list.push(self.sum()?);
            if self.take(close) {
                return Ok(list);
            }
            if !self.take(',') {
                return self.unexpected(&format!("',' or '{close}'"));
            }
        }
    }

    pub fn sum(&mut self) -> Result<Expression> {
        self.chain(&[('+', Operation::Add), ('-', Operation::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Expression> {
        let operations = [('*', Operation::Multiply), ('/', Operation::Divide), ('%', Operation::Remainder)];
        self.chain(&operations, Self::negation)
    }

    /// Operands with operations of one rank between them, from left to right.
    fn chain(
        &mut self,
        operations: &[(char, Operation)],
        operand: fn(&mut Self) -> Result<Expression>,
    ) -> Result<Expression> {
        let mut left = operand(self)?;
        loop {
            let next = self.peek();
            let Some(&(sign, operation)) = operations.iter().find(|(sign, _)| Some(*sign) == next) else {
                return Ok(left);
            };
            let place = self.place;
            self.advance(sign.len_utf8());
            let right = operand(self)?;
            left = Expression { node: Node::Apply(operation, Box::new([left, right])), place };
        }
    }

    fn negation(&mut self) -> Result<Expression> {
        if self.peek() != Some('-') {
            return self.primary();
        }
        let place = self.place;
        self.advance(1);
        let of = self.deeper(Self::negation)?;
        Ok(Expression { node: Node::Negate(Box::new(of)), place })
    }

    fn primary(&mut self) -> Result<Expression> {
        let first = self.peek();
        let place = self.place;
        match first {
            Some('(') => {
                self.advance(1);
                let inner = self.deeper(Self::sum)?;
                self.expect(')')?;
                Ok(inner)
            }
            Some('0'..='9') => Ok(Expression { node: Node::Number(self.digits()?), place }),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.word().to_owned();
                let node = if self.take('(') {
                    self.call(&name, place)?
                } else if self.take('[') {
                    self.peek();
                    let number = self.place;
                    let index = usize::try_from(self.digits()?);
                    self.expect(']')?;
                    let index = index.or_else(|_| wrong(number, "no list is that long"))?;
                    Node::Name(Name::Element(name, index))
                } else {
                    Node::Name(Name::Number(name))
                };
                Ok(Expression { node, place })
            }
            _ => self.unexpected("a number, a name or '('"),
        }
    }

    /// What stands behind a function's opening parenthesis.
    fn call(&mut self, function: &str, place: Place) -> Result<Node> {
        let arguments = self.deeper(|parser| parser.list(')'))?;
        let tensor = |arguments: &[Expression]| match arguments {
            [only] => only.as_name().map(str::to_owned),
            _ => None,
        };
        match (function, Operation::function(function)) {
            ("elements" | "size_of", _) => match tensor(&arguments) {
                Some(name) if function == "elements" => Ok(Node::Name(Name::Elements(name))),
                Some(name) => Ok(Node::Name(Name::SizeOf(name))),
                None => wrong(place, format!("{function} takes the name of a tensor")),
            },
            (_, Some(operation)) => match <[Expression; 2]>::try_from(arguments) {
                Ok(two) => Ok(Node::Apply(operation, Box::new(two))),
                Err(others) => wrong(place, format!("{function} takes two numbers, not {}", others.len())),
            },
            (_, None) => wrong(
                place,
                format!(
                    "no function is called '{function}'; there are floor_div, ceil_div, min, max, elements and size_of"
                ),
            ),
        }
    }

    fn word(&mut self) -> &'t str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        self.advance(end);
        word
    }

    fn digits(&mut self) -> Result<i64> {
        let place = self.place;
        let word = self.word();
        match word.parse() {
            Ok(number) => Ok(number),
            Err(_) if word.bytes().all(|byte| byte.is_ascii_digit()) && !word.is_empty() => {
                wrong(place, format!("{word} is beyond 64 bits"))
            }
            Err(_) => wrong(place, format!("'{word}' is no whole number")),
        }
    }
}
