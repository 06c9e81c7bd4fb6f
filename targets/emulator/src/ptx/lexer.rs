//! Text to tokens.

use super::error::{Error, ErrorKind};

/// Place of a token in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    pub fn error(self, kind: ErrorKind) -> Error {
        Error { line: self.line, column: self.column, kind }
    }
}

/// The smallest unit of meaning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A name, an opcode with its modifiers, or a directive: `%r1`, `ld.global.u32`, `.reg`, `%tid.x`, `_`.
    Word(&'a str),
    /// Digits and what follows them: `12`, `0x1F`, `0f3F800000`, `1.5`.
    Number(&'a str),
    /// A string without its quotes.
    String(&'a str),
    /// One of `( ) { } [ ] < > , ; : @ ! + - | =`.
    Mark(char),
    /// Nothing is left.
    End,
}

impl Token<'_> {
    /// What an error shows of it.
    pub fn shown(self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) | Self::String(text) => shorten(text),
            Self::Mark(mark) => mark.to_string(),
            Self::End => "end of text".to_owned(),
        }
    }
}

/// Names in errors are at most this long.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Reads tokens one after another.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1, line_start: 0 }
    }

    fn position(&self) -> Position {
        Position { line: self.line, column: (self.at - self.line_start) as u32 + 1 }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn bump(&mut self) {
        if self.byte(0) == b'\n' {
            self.line += 1;
            self.line_start = self.at + 1;
        }
        self.at += 1;
    }

    fn skip_blanks(&mut self) -> Result<(), Error> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (b' ' | b'\t' | b'\r' | b'\n', _) => self.bump(),
                (b'/', b'/') => {
                    while self.at < self.text.len() && self.byte(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    let start = self.position();
                    self.at += 2;
                    while (self.byte(0), self.byte(1)) != (b'*', b'/') {
                        if self.at >= self.text.len() {
                            return Err(start.error(ErrorKind::Unterminated("comment")));
                        }
                        self.bump();
                    }
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Returns the next token and where it begins.
    pub fn next(&mut self) -> Result<(Token<'a>, Position), Error> {
        self.skip_blanks()?;
        let (start, position) = (self.at, self.position());
        let Some(&first) = self.text.as_bytes().get(start) else { return Ok((Token::End, position)) };
        let token = match first {
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' | b'%' | b'.' => {
                self.at += 1;
                loop {
                    match (self.byte(0), self.byte(1), self.byte(2)) {
                        (b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'$' | b'.', ..) => self.at += 1,
                        // `shared::cluster`, but not the colon of a label.
                        (b':', b':', b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9') => self.at += 2,
                        _ => break,
                    }
                }
                Token::Word(&self.text[start..self.at])
            }
            b'0'..=b'9' => {
                self.at += 1;
                while matches!(self.byte(0), b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.') {
                    self.at += 1;
                }
                Token::Number(&self.text[start..self.at])
            }
            b'"' => {
                self.at += 1;
                while self.byte(0) != b'"' {
                    if self.at >= self.text.len() {
                        return Err(position.error(ErrorKind::Unterminated("string")));
                    }
                    self.bump();
                }
                self.at += 1;
                Token::String(&self.text[start + 1..self.at - 1])
            }
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b',' | b';' | b':' | b'@' | b'!' | b'+' | b'-'
            | b'|' | b'=' => {
                self.at += 1;
                Token::Mark(char::from(first))
            }
            _ => {
                let character = self.text[start..].chars().next().unwrap_or('\0');
                return Err(position.error(ErrorKind::Character(character)));
            }
        };
        Ok((token, position))
    }
}
