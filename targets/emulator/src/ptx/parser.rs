//! Tokens to a module.

use super::error::{Error, ErrorKind};
use super::inline::inline;
use super::lexer::{Lexer, Position, Token, shorten};
use super::{
    Base, Function, Instruction, Kernel, MAX_DEPTH, MAX_OPERANDS, MAX_TEXT, MAX_VARIABLE, Module, Operand, Parameter,
    StateSpace, Symbol, Type, Variable,
};
use std::collections::HashMap;

type Result<T> = std::result::Result<T, Error>;

/// Position of a label that is used before it is defined.
const UNDEFINED: u32 = u32::MAX;

pub(super) fn parse(text: &str) -> Result<Module> {
    if text.len() > MAX_TEXT {
        let kind = ErrorKind::Limit { what: "bytes of text", limit: MAX_TEXT as u64 };
        return Err(Error { line: 1, column: 1, kind });
    }
    let mut lexer = Lexer::new(text);
    let (token, position) = lexer.next()?;
    let mut parser = Parser {
        lexer,
        token,
        position,
        previous: position,
        module: Module::default(),
        names: HashMap::new(),
        source: None,
    };
    parser.module()?;
    let Module { kernels, functions, .. } = &mut parser.module;
    for kernel in kernels {
        inline(kernel, functions)?;
    }
    Ok(parser.module)
}

/// Names that one scope declares.
#[derive(Default)]
struct Scope<'a> {
    registers: HashMap<&'a str, u32>,
    /// `%r<4>`: prefix, number of registers, type.
    ranges: Vec<(&'a str, u64, Type)>,
    variables: HashMap<&'a str, Symbol>,
    labels: HashMap<&'a str, u32>,
    /// Labels used in here: name, label, where it was used.
    unresolved: Vec<(&'a str, u32, Position)>,
}

/// A function body under way.
struct Body<'a> {
    kernel: Kernel,
    scopes: Vec<Scope<'a>>,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    position: Position,
    /// Where the token before began.
    previous: Position,
    module: Module,
    /// Variables of the module.
    names: HashMap<&'a str, Symbol>,
    /// The last `.loc`.
    source: Option<(u32, u32)>,
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<Token<'a>> {
        let (token, position) = self.lexer.next()?;
        self.previous = std::mem::replace(&mut self.position, position);
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn fail<T>(&self, kind: ErrorKind) -> Result<T> {
        Err(self.position.error(kind))
    }

    /// Fails at the token that was taken last.
    fn fail_there<T>(&self, kind: ErrorKind) -> Result<T> {
        Err(self.previous.error(kind))
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T> {
        self.fail(ErrorKind::Expected { expected, found: self.token.shown() })
    }

    fn limit<T>(&self, what: &'static str, limit: u64) -> Result<T> {
        self.fail(ErrorKind::Limit { what, limit })
    }

    /// Takes a mark if it stands here.
    fn takes(&mut self, mark: char) -> Result<bool> {
        let found = self.token == Token::Mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn mark(&mut self, mark: char, what: &'static str) -> Result<()> {
        if self.takes(mark)? { Ok(()) } else { self.expected(what) }
    }

    fn word(&mut self, what: &'static str) -> Result<&'a str> {
        match self.token {
            Token::Word(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn integer(&mut self, what: &'static str) -> Result<u64> {
        let Token::Number(text) = self.token else { return self.expected(what) };
        let Some(value) = integer(text) else { return self.fail(ErrorKind::Number(shorten(text))) };
        self.advance()?;
        Ok(value)
    }

    fn small(&mut self, what: &'static str, limit: u64) -> Result<u32> {
        let value = self.integer(what)?;
        match u32::try_from(value) {
            Ok(small) if value <= limit => Ok(small),
            _ => self.limit(what, limit),
        }
    }

    /// Skips to behind the next `;`.
    fn skip_statement(&mut self) -> Result<()> {
        while self.token != Token::Mark(';') {
            if self.token == Token::End {
                return self.expected("';'");
            }
            self.advance()?;
        }
        self.advance()?;
        Ok(())
    }

    /// Skips a balanced `{ … }`.
    fn skip_braces(&mut self) -> Result<()> {
        let mut depth = 0_u32;
        loop {
            match self.advance()? {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') if depth <= 1 => return Ok(()),
                Token::Mark('}') => depth -= 1,
                Token::End => return self.expected("'}'"),
                _ => {}
            }
        }
    }

    fn module(&mut self) -> Result<()> {
        while self.token != Token::End {
            match self.word("a directive")? {
                ".version" => drop(self.advance()?),
                ".target" => {
                    self.module.target = self.word("an architecture")?.to_owned();
                    while self.takes(',')? {
                        self.word("an architecture")?;
                    }
                }
                ".address_size" => {
                    if self.small("bits of an address", 64)? != 64 {
                        return self.fail_there(ErrorKind::Directive(".address_size 32".to_owned()));
                    }
                }
                ".file" => {
                    let number = self.small("number of a file", u64::from(u32::MAX))?;
                    let Token::String(name) = self.advance()? else { return self.expected("name of a file") };
                    self.module.files.push((number, name.to_owned()));
                    while self.takes(',')? {
                        self.integer("a number")?;
                    }
                }
                ".section" => {
                    while self.token != Token::Mark('{') {
                        if self.advance()? == Token::End {
                            return self.expected("'{'");
                        }
                    }
                    self.skip_braces()?;
                }
                ".pragma" => self.skip_statement()?,
                ".extern" | ".visible" | ".weak" | ".common" => {}
                ".entry" => self.entry()?,
                ".func" => self.function()?,
                ".loc" => self.location()?,
                space @ (".const" | ".global" | ".shared") => {
                    for (name, variable) in self.variables(state_space(space))? {
                        let symbol = Symbol::Module(self.module.variables.len() as u32);
                        if self.names.insert(name, symbol).is_some() {
                            return self.fail_there(ErrorKind::Duplicate(shorten(name)));
                        }
                        self.module.variables.push(variable);
                    }
                }
                other => return self.fail_there(ErrorKind::Directive(shorten(other))),
            }
        }
        Ok(())
    }

    /// `[(results)] name [(parameters)] { … }`, or a declaration only.
    fn function(&mut self) -> Result<()> {
        let mut body = Body { kernel: Kernel::default(), scopes: Vec::new() };
        let mut scope = Scope::default();
        self.formals(&mut body.kernel, &mut scope)?;
        body.kernel.name = self.word("name of a function")?.to_owned();
        self.formals(&mut body.kernel, &mut scope)?;
        while let Token::Word(directive) = self.token {
            if !matches!(directive, ".noreturn" | ".pragma") {
                return self.fail(ErrorKind::Directive(shorten(directive)));
            }
            self.advance()?;
        }
        if self.takes(';')? {
            return Ok(());
        }
        if self.token != Token::Mark('{') {
            return self.expected("the body of a function");
        }
        let parameters = body.kernel.variables.len();
        body.scopes.push(scope);
        self.source = None;
        self.body(&mut body)?;
        self.module.functions.push(Function { body: body.kernel, parameters });
        Ok(())
    }

    /// Results or parameters of a function, if they stand here.
    fn formals(&mut self, kernel: &mut Kernel, scope: &mut Scope<'a>) -> Result<()> {
        if !self.takes('(')? || self.takes(')')? {
            return Ok(());
        }
        loop {
            if self.word("'.param'")? != ".param" {
                return self.expected("'.param' before this");
            }
            let (alignment, r#type) = self.typed()?;
            let name = self.word("name of a parameter")?;
            let bytes = self.dimensions()?.unwrap_or(1).saturating_mul(u64::from(r#type.bytes()));
            if bytes > MAX_VARIABLE {
                return self.limit("bytes of a variable", MAX_VARIABLE);
            }
            let symbol = Symbol::Kernel(kernel.variables.len() as u32);
            if scope.variables.insert(name, symbol).is_some() {
                return self.fail_there(ErrorKind::Duplicate(shorten(name)));
            }
            let alignment = alignment.unwrap_or_else(|| r#type.bytes());
            let (space, initial) = (StateSpace::Parameter, Vec::new());
            kernel.variables.push(Variable { space, alignment, bytes: bytes as u32, initial });
            if self.takes(')')? {
                return Ok(());
            }
            self.mark(',', "',' or ')'")?;
        }
    }

    fn location(&mut self) -> Result<()> {
        let file = self.small("number of a file", u64::from(u32::MAX))?;
        let line = self.small("line", u64::from(u32::MAX))?;
        self.integer("column")?;
        // Where it was inlined: that line is not kept.
        while self.takes(',')? {
            self.word("an attribute of a place")?;
            loop {
                match self.token {
                    Token::Word(word) if word.starts_with('$') => drop(self.advance()?),
                    Token::Number(_) | Token::Mark('+') => drop(self.advance()?),
                    _ => break,
                }
            }
        }
        self.source = (line != 0).then_some((file, line));
        Ok(())
    }

    /// `[.align N] .type name[size] [= …] {, name…} ;` behind the state space.
    fn variables(&mut self, space: StateSpace) -> Result<Vec<(&'a str, Variable)>> {
        let (alignment, r#type) = self.typed()?;
        let mut variables = Vec::new();
        loop {
            let name = self.word("name of a variable")?;
            let elements = self.dimensions()?;
            let bytes = elements.unwrap_or(1).saturating_mul(u64::from(r#type.bytes()));
            if bytes > MAX_VARIABLE {
                return self.limit("bytes of a variable", MAX_VARIABLE);
            }
            let initial = if self.takes('=')? { self.initialiser(r#type, bytes)? } else { Vec::new() };
            let bytes = bytes.max(initial.len() as u64) as u32;
            let alignment = alignment.unwrap_or_else(|| r#type.bytes());
            variables.push((name, Variable { space, alignment, bytes, initial }));
            if !self.takes(',')? {
                break;
            }
        }
        self.mark(';', "';'")?;
        Ok(variables)
    }

    /// `[.align N] [.attribute(…)] [.v2|.v4] .type`
    fn typed(&mut self) -> Result<(Option<u32>, Type)> {
        let mut alignment = None;
        loop {
            match self.word("a type")? {
                ".align" => {
                    let value = self.small("bytes of alignment", 4096)?;
                    if !value.is_power_of_two() {
                        return self.expected("a power of two before this");
                    }
                    alignment = Some(value);
                }
                // What a pointer parameter points to: `.ptr .global .align 16`, behind the type.
                name => match name.strip_prefix('.').and_then(Type::named) {
                    Some(r#type) => return Ok((alignment, r#type)),
                    None => return self.fail_there(ErrorKind::Directive(shorten(name))),
                },
            }
        }
    }

    /// `[4][2]`: number of elements; 0 where it is left open, `None` where there are no brackets.
    fn dimensions(&mut self) -> Result<Option<u64>> {
        let mut elements = None;
        while self.takes('[')? {
            let extent = if self.token == Token::Mark(']') { 0 } else { self.integer("number of elements")? };
            elements = Some(elements.unwrap_or(1_u64).saturating_mul(extent));
            self.mark(']', "']'")?;
        }
        Ok(elements)
    }

    fn initialiser(&mut self, r#type: Type, bytes: u64) -> Result<Vec<u8>> {
        let (mut initial, mut depth) = (Vec::new(), 0_u32);
        loop {
            match self.token {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') if depth > 0 => depth -= 1,
                Token::Mark(',') if depth > 0 => {}
                Token::Number(_) | Token::Mark('-') => {
                    let value = match self.immediate()? {
                        Operand::Integer(value) | Operand::F64(value) => value,
                        Operand::F32(value) => u64::from(value),
                        _ => return self.expected("a number"),
                    };
                    initial.extend_from_slice(&value.to_le_bytes()[..(r#type.bytes() as usize).min(8)]);
                    if initial.len() as u64 > bytes.max(u64::from(r#type.bytes())) && bytes != 0 {
                        return self.limit("bytes of values", bytes);
                    }
                    if depth == 0 {
                        return Ok(initial);
                    }
                    continue;
                }
                _ => return self.expected("a value"),
            }
            self.advance()?;
            if depth == 0 {
                return Ok(initial);
            }
        }
    }

    fn three(&mut self) -> Result<[u32; 3]> {
        let mut extents = [1; 3];
        for (i, extent) in extents.iter_mut().enumerate() {
            if i > 0 && !self.takes(',')? {
                break;
            }
            *extent = self.small("threads", u64::from(u32::MAX))?;
        }
        Ok(extents)
    }

    fn entry(&mut self) -> Result<()> {
        let name = self.word("name of a kernel")?;
        if self.module.kernel(name).is_some() {
            return self.fail_there(ErrorKind::Duplicate(shorten(name)));
        }
        let mut body = Body { kernel: Kernel { name: name.to_owned(), ..Kernel::default() }, scopes: Vec::new() };
        let mut scope = Scope::default();
        if self.takes('(')? && !self.takes(')')? {
            loop {
                self.parameter(&mut body.kernel, &mut scope)?;
                if self.takes(')')? {
                    break;
                }
                self.mark(',', "',' or ')'")?;
            }
        }
        loop {
            match self.token {
                Token::Mark('{') => break,
                // A declaration only.
                Token::Mark(';') => return self.skip_statement(),
                _ => {}
            }
            match self.word("a directive of a kernel")? {
                ".maxntid" => body.kernel.max_threads = Some(self.three()?),
                ".reqntid" => body.kernel.required_threads = Some(self.three()?),
                ".reqnctapercluster" => body.kernel.required_cluster = Some(self.three()?),
                ".minnctapersm" | ".maxnreg" | ".maxclusterrank" => drop(self.integer("a number")?),
                ".explicitcluster" => {}
                ".pragma" => self.skip_statement()?,
                other => return self.fail_there(ErrorKind::Directive(shorten(other))),
            }
        }
        body.scopes.push(scope);
        self.source = None;
        self.body(&mut body)?;
        self.module.kernels.push(body.kernel);
        Ok(())
    }

    fn parameter(&mut self, kernel: &mut Kernel, scope: &mut Scope<'a>) -> Result<()> {
        if self.word("'.param'")? != ".param" {
            return self.expected("'.param' before this");
        }
        let (alignment, r#type) = self.typed()?;
        let mut alignment = alignment.unwrap_or_else(|| r#type.bytes());
        // `.ptr [.space] [.align N]` says what a pointer points to.
        let mut name = self.word("name of a parameter")?;
        while name.starts_with('.') {
            if name == ".align" {
                self.integer("bytes of alignment")?;
            }
            name = self.word("name of a parameter")?;
        }
        alignment = alignment.max(1);
        let bytes = self.dimensions()?.unwrap_or(1).saturating_mul(u64::from(r#type.bytes()));
        let last = kernel.parameters.last().map_or(0, |last| last.offset + last.bytes);
        let offset = last.next_multiple_of(alignment);
        const BYTES: u64 = 32 << 10;
        if bytes > BYTES || u64::from(offset) + bytes > BYTES {
            return self.limit("bytes of parameters", BYTES);
        }
        let symbol = Symbol::Parameter(kernel.parameters.len() as u32);
        if scope.variables.insert(name, symbol).is_some() {
            return self.fail_there(ErrorKind::Duplicate(shorten(name)));
        }
        kernel.parameters.push(Parameter { name: name.to_owned(), offset, bytes: bytes as u32, alignment });
        Ok(())
    }

    fn body(&mut self, body: &mut Body<'a>) -> Result<()> {
        loop {
            match self.token {
                Token::Mark('{') => {
                    if body.scopes.len() > MAX_DEPTH {
                        return self.limit("scopes inside one another", MAX_DEPTH as u64);
                    }
                    body.scopes.push(Scope::default());
                    self.advance()?;
                }
                Token::Mark('}') => {
                    body.close()?;
                    self.advance()?;
                    if body.scopes.len() == 1 {
                        return Ok(());
                    }
                }
                Token::Mark(';') => drop(self.advance()?),
                Token::Mark('@') => self.instruction(body)?,
                Token::Word(word) if word.starts_with('.') => self.directive(body)?,
                Token::Word(_) => self.instruction(body)?,
                _ => return self.expected("an instruction or a directive"),
            }
        }
    }

    fn directive(&mut self, body: &mut Body<'a>) -> Result<()> {
        match self.word("a directive")? {
            ".reg" => self.registers(body),
            ".loc" => self.location(),
            ".pragma" => self.skip_statement(),
            space @ (".shared" | ".local" | ".param" | ".const" | ".global") => {
                for (name, variable) in self.variables(state_space(space))? {
                    let symbol = Symbol::Kernel(body.kernel.variables.len() as u32);
                    body.kernel.variables.push(variable);
                    if body.innermost().variables.insert(name, symbol).is_some() {
                        return self.fail_there(ErrorKind::Duplicate(shorten(name)));
                    }
                }
                Ok(())
            }
            other => self.fail_there(ErrorKind::Directive(shorten(other))),
        }
    }

    fn registers(&mut self, body: &mut Body<'a>) -> Result<()> {
        let (_, r#type) = self.typed()?;
        loop {
            let name = self.word("name of a register")?;
            if self.takes('<')? {
                let count = self.integer("number of registers")?;
                self.mark('>', "'>'")?;
                let ranges = &mut body.innermost().ranges;
                if ranges.iter().any(|(other, ..)| *other == name) {
                    return self.fail_there(ErrorKind::Duplicate(shorten(name)));
                }
                // Every name is looked up in every range.
                const RANGES: usize = 64;
                if ranges.len() == RANGES {
                    return self.limit("ranges of registers", RANGES as u64);
                }
                ranges.push((name, count, r#type));
            } else {
                let register = body.register(r#type);
                if body.innermost().registers.insert(name, register).is_some() {
                    return self.fail_there(ErrorKind::Duplicate(shorten(name)));
                }
            }
            if !self.takes(',')? {
                break;
            }
        }
        self.mark(';', "';'")
    }

    fn instruction(&mut self, body: &mut Body<'a>) -> Result<()> {
        let line = self.position.line;
        let guard = if self.takes('@')? {
            let negated = self.takes('!')?;
            let name = self.word("a predicate")?;
            match body.find_register(name) {
                Some(register) if body.kernel.registers[register as usize] == Type::Pred => Some((register, negated)),
                Some(_) => return self.expected("a predicate before this"),
                None => return self.fail_there(ErrorKind::Undeclared(shorten(name))),
            }
        } else {
            None
        };
        let position = self.position;
        let name = self.word("an instruction")?;
        if guard.is_none() && self.takes(':')? {
            return body.define(name, position);
        }
        let branches = name == "bra" || name.starts_with("bra.");
        let mut operands = Vec::new();
        while !self.takes(';')? {
            if !operands.is_empty() {
                self.mark(',', "',' or ';'")?;
            }
            if operands.len() == MAX_OPERANDS {
                return self.limit("operands", MAX_OPERANDS as u64);
            }
            operands.push(match self.token {
                Token::Word(label) if branches => {
                    let position = self.position;
                    self.advance()?;
                    Operand::Label(body.label(label, position))
                }
                _ => self.operand(body)?,
            });
        }
        body.kernel.instructions.push(Instruction {
            guard,
            name: name.into(),
            operands: operands.into(),
            line,
            source: self.source,
        });
        Ok(())
    }

    fn operand(&mut self, body: &mut Body<'a>) -> Result<Operand> {
        match self.token {
            Token::Mark('{') => Ok(Operand::Vector(self.list(body, '}')?)),
            // Of calls.
            Token::Mark('(') => Ok(Operand::Vector(self.list(body, ')')?)),
            Token::Mark('[') => {
                self.advance()?;
                let operand = self.address(body)?;
                self.mark(']', "']'")?;
                Ok(operand)
            }
            _ => {
                let first = self.scalar(body)?;
                if self.takes('|')? {
                    let second = self.scalar(body)?;
                    return Ok(Operand::Pair(Box::new([first, second])));
                }
                Ok(first)
            }
        }
    }

    fn list(&mut self, body: &mut Body<'a>, end: char) -> Result<Vec<Operand>> {
        self.advance()?;
        let mut elements = Vec::new();
        while !self.takes(end)? {
            if !elements.is_empty() {
                self.mark(',', "','")?;
            }
            if elements.len() == MAX_OPERANDS {
                return self.limit("elements of a vector", MAX_OPERANDS as u64);
            }
            elements.push(self.scalar(body)?);
        }
        Ok(elements)
    }

    fn scalar(&mut self, body: &mut Body<'a>) -> Result<Operand> {
        match self.token {
            Token::Number(_) | Token::Mark('-') => self.immediate(),
            Token::Mark('!') => {
                self.advance()?;
                let name = self.word("a predicate")?;
                match body.find_register(name) {
                    Some(register) => Ok(Operand::Not(register)),
                    None => self.fail_there(ErrorKind::Undeclared(shorten(name))),
                }
            }
            Token::Word("_") => {
                self.advance()?;
                Ok(Operand::Sink)
            }
            Token::Word(name) => {
                let position = self.position;
                self.advance()?;
                if let Some(register) = body.find_register(name) {
                    return Ok(Operand::Register(register));
                }
                if let Some(symbol) = body.find_variable(name).or_else(|| self.names.get(name).copied()) {
                    let offset = self.offset()?;
                    return Ok(Operand::Symbol(symbol, offset));
                }
                match name.strip_prefix('%') {
                    Some(special) if is_special(special) => Ok(Operand::Special(special.into())),
                    Some(_) => Err(position.error(ErrorKind::Undeclared(shorten(name)))),
                    None => Ok(Operand::Other(name.into())),
                }
            }
            _ => self.expected("an operand"),
        }
    }

    /// `+4`, `-4`, `+-4` or nothing.
    fn offset(&mut self) -> Result<i64> {
        let plus = self.takes('+')?;
        let minus = self.takes('-')?;
        if !plus && !minus {
            return Ok(0);
        }
        let value = self.integer("an offset")? as i64;
        Ok(if minus { value.wrapping_neg() } else { value })
    }

    /// What stands between brackets.
    fn address(&mut self, body: &mut Body<'a>) -> Result<Operand> {
        let base = match self.scalar(body)? {
            Operand::Register(register) => (Base::Register(register), self.offset()?),
            Operand::Symbol(symbol, offset) => (Base::Symbol(symbol), offset),
            Operand::Integer(address) => (Base::Absolute, address as i64),
            Operand::Other(name) => return self.fail(ErrorKind::Undeclared(shorten(&name))),
            _ => return self.expected("an address before this"),
        };
        Ok(Operand::Address(base.0, base.1))
    }

    fn immediate(&mut self) -> Result<Operand> {
        let minus = self.takes('-')?;
        let Token::Number(text) = self.token else { return self.expected("a number") };
        let Some(value) = immediate(text, minus) else { return self.fail(ErrorKind::Number(shorten(text))) };
        self.advance()?;
        Ok(value)
    }
}

impl<'a> Body<'a> {
    fn innermost(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn register(&mut self, r#type: Type) -> u32 {
        self.kernel.registers.push(r#type);
        self.kernel.registers.len() as u32 - 1
    }

    /// Returns the register of a name. A member of a range becomes a register when it is first named, so that a range
    /// costs nothing however many it claims to hold.
    fn find_register(&mut self, name: &'a str) -> Option<u32> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name.get(prefix.len()..).filter(|digits| *digits == "0" || !digits.starts_with('0'));
        let number = number.and_then(|digits| digits.parse::<u64>().ok());
        for depth in (0..self.scopes.len()).rev() {
            if let Some(register) = self.scopes[depth].registers.get(name) {
                return Some(*register);
            }
            let Some(number) = number else { continue };
            let ranges = &self.scopes[depth].ranges;
            let Some((_, _, r#type)) = ranges.iter().find(|(p, count, _)| *p == prefix && number < *count) else {
                continue;
            };
            let register = self.register(*r#type);
            self.scopes[depth].registers.insert(name, register);
            return Some(register);
        }
        None
    }

    fn find_variable(&self, name: &str) -> Option<Symbol> {
        self.scopes.iter().rev().find_map(|scope| scope.variables.get(name).copied())
    }

    /// Returns a label for a name that is used: which one it is shows when the scope ends.
    fn label(&mut self, name: &'a str, position: Position) -> u32 {
        self.kernel.labels.push(UNDEFINED);
        let label = self.kernel.labels.len() as u32 - 1;
        self.innermost().unresolved.push((name, label, position));
        label
    }

    fn define(&mut self, name: &'a str, position: Position) -> Result<()> {
        let at = self.kernel.instructions.len() as u32;
        self.kernel.labels.push(at);
        let label = self.kernel.labels.len() as u32 - 1;
        match self.innermost().labels.insert(name, label) {
            Some(_) => Err(position.error(ErrorKind::Duplicate(shorten(name)))),
            None => Ok(()),
        }
    }

    /// Ends the innermost scope: labels that it uses and does not define are looked for in the one around it.
    fn close(&mut self) -> Result<()> {
        let Some(scope) = self.scopes.pop() else { return Ok(()) };
        let outermost = self.scopes.len() <= 1;
        for (name, label, used) in scope.unresolved {
            match scope.labels.get(name) {
                Some(defined) => {
                    self.kernel.labels[label as usize] = self.kernel.labels[*defined as usize];
                }
                None if outermost => return Err(used.error(ErrorKind::Undeclared(shorten(name)))),
                None => self.innermost().unresolved.push((name, label, used)),
            }
        }
        Ok(())
    }
}

/// Registers that the machine provides, without the percent sign.
pub(super) fn is_special(name: &str) -> bool {
    let (base, axis) = name.split_once('.').unwrap_or((name, ""));
    match base {
        "tid" | "ntid" | "ctaid" | "nctaid" | "clusterid" | "nclusterid" | "cluster_ctaid" | "cluster_nctaid" => {
            matches!(axis, "x" | "y" | "z")
        }
        "laneid"
        | "warpid"
        | "nwarpid"
        | "smid"
        | "nsmid"
        | "gridid"
        | "clock"
        | "clock64"
        | "clock_hi"
        | "globaltimer"
        | "globaltimer_lo"
        | "lanemask_eq"
        | "lanemask_lt"
        | "lanemask_le"
        | "lanemask_gt"
        | "lanemask_ge"
        | "dynamic_smem_size"
        | "total_smem_size"
        | "cluster_ctarank"
        | "cluster_nctarank"
        | "is_explicit_cluster" => axis.is_empty(),
        _ => false,
    }
}

fn state_space(directive: &str) -> StateSpace {
    match directive {
        ".const" => StateSpace::Constant,
        ".shared" => StateSpace::Shared,
        ".local" => StateSpace::Local,
        ".param" => StateSpace::Parameter,
        _ => StateSpace::Global,
    }
}

/// Value of an unsigned integer: decimal, `0x`, `0b` or octal, perhaps with a `U`.
fn integer(text: &str) -> Option<u64> {
    let digits = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let lower = digits.as_bytes().get(1).map(u8::to_ascii_lowercase);
    match (digits.as_bytes().first(), lower) {
        (Some(b'0'), Some(b'x')) => u64::from_str_radix(digits.get(2..)?, 16).ok(),
        (Some(b'0'), Some(b'b')) => u64::from_str_radix(digits.get(2..)?, 2).ok(),
        (Some(b'0'), Some(_)) => u64::from_str_radix(digits, 8).ok(),
        _ => digits.parse().ok(),
    }
}

fn immediate(text: &str, minus: bool) -> Option<Operand> {
    let hexadecimal = |digits: usize| {
        let bits = text.get(2..).filter(|rest| rest.len() == digits)?;
        u64::from_str_radix(bits, 16).ok()
    };
    let prefix = text.as_bytes().get(..2).map(|two| [two[0], two[1].to_ascii_lowercase()]);
    match prefix {
        Some([b'0', b'f']) => {
            let sign = if minus { 1 << 31 } else { 0 };
            hexadecimal(8).map(|bits| Operand::F32(bits as u32 ^ sign))
        }
        Some([b'0', b'd']) => {
            let sign = if minus { 1 << 63 } else { 0 };
            hexadecimal(16).map(|bits| Operand::F64(bits ^ sign))
        }
        _ if text.contains('.') => {
            let value: f64 = text.parse().ok()?;
            Some(Operand::F64(if minus { -value } else { value }.to_bits()))
        }
        _ => integer(text).map(|value| Operand::Integer(if minus { value.wrapping_neg() } else { value })),
    }
}
