//! Tokens → trees. Names of functions and variables are checked here, as Go does, so that a misspelt one is an error
//! even where it would never be reached.

use std::collections::BTreeMap;

use crate::ast::{Branch, Command, Expr, Node, Pipe, Pos, Tree};
use crate::error::{TemplateError, line_and_column};
use crate::lex::{Kind, Token, lex};
use crate::number::{Number, unescape};

/// Deeper nesting is nobody's template, and every level is stack.
const DEPTH_MAX: usize = 100;

pub(crate) struct Parser<'a> {
    name: &'a str,
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
    variables: Vec<String>,
    range_depth: usize,
    depth: usize,
    is_function: &'a dyn Fn(&str) -> bool,
    trees: BTreeMap<String, Tree>,
}

/// What ended a list of nodes.
enum Stop {
    End,
    Else,
    Eof,
}

type Parsed<T> = Result<T, TemplateError>;

/// Every template that the text defines; the text itself is the one called `name`.
pub(crate) fn parse(
    name: &str,
    text: &str,
    is_function: &dyn Fn(&str) -> bool,
) -> Parsed<BTreeMap<String, Tree>> {
    let tokens = lex(text).map_err(|error| place(name, text, error.pos, error.message))?;
    let mut parser = Parser {
        name,
        text,
        tokens,
        next: 0,
        variables: vec!["$".to_owned()],
        range_depth: 0,
        depth: 0,
        is_function,
        trees: BTreeMap::new(),
    };
    let (nodes, stop) = parser.list(true)?;
    match stop {
        Stop::Eof => {}
        Stop::End => return parser.fail_before("unexpected {{end}}"),
        Stop::Else => return parser.fail_before("unexpected {{else}}"),
    }
    parser.define(name.to_owned(), Tree { nodes }, 0)?;
    Ok(parser.trees)
}

fn place(name: &str, text: &str, pos: Pos, message: String) -> TemplateError {
    let (line, column) = line_and_column(text, pos);
    TemplateError::Parse { name: name.to_owned(), line, column, message }
}

impl Parser<'_> {
    fn fail<T>(&self, pos: Pos, message: impl Into<String>) -> Parsed<T> {
        Err(place(self.name, self.text, pos, message.into()))
    }

    fn fail_before<T>(&self, message: &str) -> Parsed<T> {
        self.fail(self.tokens[self.next.saturating_sub(1)].pos, message)
    }

    fn peek(&self) -> &Token {
        // The last token is always End, and nothing is read past it.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn skip_space(&mut self) {
        while self.peek().kind == Kind::Space {
            self.next += 1;
        }
    }

    fn take_solid(&mut self) -> Token {
        self.skip_space();
        self.take()
    }

    fn unexpected<T>(&self, token: &Token, context: &str) -> Parsed<T> {
        let what = match token.kind {
            Kind::End => "the end of the text".to_owned(),
            Kind::RightDelimiter => "\"}}\"".to_owned(),
            Kind::Keyword => format!("<{}>", token.text),
            _ => format!("{:?}", token.text),
        };
        self.fail(token.pos, format!("unexpected {what} in {context}"))
    }

    fn expect(&mut self, kind: &Kind, context: &str) -> Parsed<Token> {
        let token = self.take_solid();
        if token.kind == *kind { Ok(token) } else { self.unexpected(&token, context) }
    }

    fn deeper(&mut self, pos: Pos) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail(pos, format!("nested deeper than {DEPTH_MAX} levels; split it into templates"));
        }
        Ok(())
    }

    fn define(&mut self, name: String, tree: Tree, pos: Pos) -> Parsed<()> {
        match self.trees.get(&name) {
            Some(known) if !known.is_empty() && !tree.is_empty() => {
                self.fail(pos, format!("multiple definition of template {name:?}"))
            }
            Some(known) if !known.is_empty() => Ok(()),
            _ => {
                self.trees.insert(name, tree);
                Ok(())
            }
        }
    }

    /// Nodes up to `{{end}}`, `{{else…` or the end of the text. `{{else` is taken, what follows it is not.
    fn list(&mut self, top: bool) -> Parsed<(Vec<Node>, Stop)> {
        let mut nodes = Vec::new();
        loop {
            let token = self.take();
            match token.kind {
                Kind::End => return Ok((nodes, Stop::Eof)),
                Kind::Text => nodes.push(Node::Text(token.text)),
                Kind::LeftDelimiter => {
                    self.skip_space();
                    let word = self.peek().clone();
                    match (word.kind.clone(), word.text.as_str()) {
                        (Kind::Keyword, "define") if top => {
                            self.next += 1;
                            self.definition(word.pos)?;
                        }
                        (Kind::Keyword, "end") => {
                            self.next += 1;
                            self.expect(&Kind::RightDelimiter, "end")?;
                            return Ok((nodes, Stop::End));
                        }
                        (Kind::Keyword, "else") => {
                            self.next += 1;
                            return Ok((nodes, Stop::Else));
                        }
                        (Kind::Keyword, _) => {
                            self.next += 1;
                            nodes.push(self.control(&word)?);
                        }
                        _ => {
                            let pipe = self.pipeline("command", &Kind::RightDelimiter)?;
                            nodes.push(Node::Action(pipe));
                        }
                    }
                }
                _ => return self.unexpected(&token, "input"),
            }
        }
    }

    fn control(&mut self, word: &Token) -> Parsed<Node> {
        let pos = word.pos;
        match word.text.as_str() {
            "if" => Ok(Node::If(self.branch("if", pos)?)),
            "with" => Ok(Node::With(self.branch("with", pos)?)),
            "range" => Ok(Node::Range(self.branch("range", pos)?)),
            "block" => self.block(pos),
            "template" => {
                let (pos, name) = self.template_name("template clause")?;
                self.skip_space();
                let pipe = if self.peek().kind == Kind::RightDelimiter {
                    self.next += 1;
                    None
                } else {
                    Some(self.pipeline("template clause", &Kind::RightDelimiter)?)
                };
                Ok(Node::Template { pos, name, pipe })
            }
            "break" | "continue" => {
                let token = self.take_solid();
                if token.kind != Kind::RightDelimiter {
                    return self.unexpected(&token, &format!("{{{{{}}}}}", word.text));
                }
                if self.range_depth == 0 {
                    return self.fail(pos, format!("{{{{{}}}}} outside {{{{range}}}}", word.text));
                }
                Ok(if word.text == "break" { Node::Break } else { Node::Continue })
            }
            // Only the text itself may define templates.
            _ => self.unexpected(word, "command"),
        }
    }

    /// The name, and where it stands.
    fn template_name(&mut self, context: &str) -> Parsed<(Pos, String)> {
        let token = self.take_solid();
        match token.kind {
            Kind::Quoted | Kind::Raw => Ok((token.pos, self.text_of(&token)?)),
            _ => self.unexpected(&token, context),
        }
    }

    fn text_of(&self, token: &Token) -> Parsed<String> {
        let inner = &token.text[1..token.text.len() - 1];
        if token.kind == Kind::Raw {
            return Ok(inner.replace('\r', ""));
        }
        match unescape(inner, true) {
            Some(text) => Ok(text),
            None => self.fail(token.pos, format!("the string {} has an unknown escape", token.text)),
        }
    }

    fn definition(&mut self, pos: Pos) -> Parsed<()> {
        let (_, name) = self.template_name("define clause")?;
        self.expect(&Kind::RightDelimiter, "define clause")?;
        let nodes = self.nested_template("define", pos)?;
        self.define(name, Tree { nodes }, pos)
    }

    /// The body of `define` and `block`: variables from outside are not seen in it.
    fn nested_template(&mut self, what: &str, pos: Pos) -> Parsed<Vec<Node>> {
        self.deeper(pos)?;
        let variables = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let ranges = std::mem::take(&mut self.range_depth);
        let (nodes, stop) = self.list(false)?;
        self.variables = variables;
        self.range_depth = ranges;
        self.depth -= 1;
        match stop {
            Stop::End => Ok(nodes),
            Stop::Else => self.fail_before(&format!("unexpected {{{{else}}}} in {what} clause")),
            Stop::Eof => self.fail(pos, format!("unexpected EOF; this {{{{{what}}}}} has no {{{{end}}}}")),
        }
    }

    fn block(&mut self, pos: Pos) -> Parsed<Node> {
        let (name_pos, name) = self.template_name("block clause")?;
        let pipe = self.pipeline("block clause", &Kind::RightDelimiter)?;
        let nodes = self.nested_template("block", pos)?;
        self.define(name.clone(), Tree { nodes }, pos)?;
        Ok(Node::Template { pos: name_pos, name, pipe: Some(pipe) })
    }

    fn branch(&mut self, word: &str, pos: Pos) -> Parsed<Branch> {
        self.deeper(pos)?;
        let variables = self.variables.len();
        let pipe = self.pipeline(word, &Kind::RightDelimiter)?;
        self.range_depth += usize::from(word == "range");
        let (list, stop) = self.list(false)?;
        self.range_depth -= usize::from(word == "range");
        let mut otherwise = Vec::new();
        match stop {
            Stop::End => {}
            Stop::Eof => {
                return self.fail(pos, format!("unexpected EOF; this {{{{{word}}}}} has no {{{{end}}}}"));
            }
            Stop::Else => {
                self.skip_space();
                let token = self.peek().clone();
                // `{{else if}}` and `{{else with}}` stand for an `if` inside the `else`, with one `{{end}}` for both.
                let chained = token.kind == Kind::Keyword && (word != "range") && token.text == word;
                if chained {
                    self.next += 1;
                    otherwise.push(self.control(&token)?);
                } else {
                    self.expect(&Kind::RightDelimiter, "else")?;
                    let (nodes, stop) = self.list(false)?;
                    match stop {
                        Stop::End => otherwise = nodes,
                        Stop::Else => return self.fail_before("expected end; found {{else}}"),
                        Stop::Eof => {
                            return self.fail(
                                pos,
                                format!("unexpected EOF; this {{{{{word}}}}} has no {{{{end}}}}"),
                            );
                        }
                    }
                }
            }
        }
        self.variables.truncate(variables);
        self.depth -= 1;
        Ok(Branch { pipe, list, otherwise })
    }

    fn pipeline(&mut self, context: &str, end: &Kind) -> Parsed<Pipe> {
        self.skip_space();
        let pos = self.peek().pos;
        let mut pipe = Pipe { pos, declare: Vec::new(), assign: false, commands: Vec::new() };
        self.declarations(context, &mut pipe)?;
        loop {
            let token = self.take_solid();
            if token.kind == *end {
                self.check_pipeline(&pipe, context, pos)?;
                if !pipe.assign {
                    self.variables.extend(pipe.declare.iter().cloned());
                }
                return Ok(pipe);
            }
            match token.kind {
                Kind::Bool
                | Kind::Character
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Nil
                | Kind::Number
                | Kind::Quoted
                | Kind::Raw
                | Kind::Variable
                | Kind::LeftParenthesis => {
                    self.next -= 1;
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
                _ => return self.unexpected(&token, context),
            }
        }
    }

    /// `$a :=`, `$a =`, and in `range` also `$a, $b :=`.
    fn declarations(&mut self, context: &str, pipe: &mut Pipe) -> Parsed<()> {
        loop {
            self.skip_space();
            if self.peek().kind != Kind::Variable {
                return Ok(());
            }
            let start = self.next;
            let variable = self.take();
            self.skip_space();
            let token = self.peek().clone();
            match token.kind {
                Kind::Declare | Kind::Assign => {
                    self.next += 1;
                    pipe.assign = token.kind == Kind::Assign;
                    if pipe.assign {
                        self.check_variable(&variable)?;
                    }
                    pipe.declare.push(variable.text);
                    return Ok(());
                }
                Kind::Comma if context == "range" && pipe.declare.is_empty() => {
                    self.next += 1;
                    pipe.declare.push(variable.text);
                    self.skip_space();
                    if self.peek().kind != Kind::Variable {
                        return self.fail(self.peek().pos, "range can only initialize variables");
                    }
                }
                Kind::Comma => {
                    return self.fail(token.pos, format!("too many declarations in {context}"));
                }
                _ => {
                    self.next = start;
                    return Ok(());
                }
            }
        }
    }

    fn check_variable(&self, token: &Token) -> Parsed<()> {
        if self.variables.contains(&token.text) {
            return Ok(());
        }
        self.fail(token.pos, format!("undefined variable {:?}", token.text))
    }

    fn check_pipeline(&self, pipe: &Pipe, context: &str, pos: Pos) -> Parsed<()> {
        if pipe.commands.is_empty() {
            return self.fail(pos, format!("missing value for {context}"));
        }
        for (index, command) in pipe.commands.iter().enumerate().skip(1) {
            if matches!(
                command.arguments[0],
                Expr::Bool(..) | Expr::Dot(_) | Expr::Nil(_) | Expr::Number(..) | Expr::Text(..)
            ) {
                return self
                    .fail(command.pos, format!("non executable command in pipeline stage {}", index + 1));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        self.skip_space();
        let pos = self.peek().pos;
        let mut arguments = Vec::new();
        loop {
            self.skip_space();
            if let Some(operand) = self.operand()? {
                arguments.push(operand);
            }
            let token = self.take();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelimiter | Kind::RightParenthesis => self.next -= 1,
                Kind::Pipe => {}
                _ => return self.unexpected(&token, "operand"),
            }
            break;
        }
        if arguments.is_empty() {
            return self.fail(pos, "empty command");
        }
        Ok(Command { pos, arguments })
    }

    fn operand(&mut self) -> Parsed<Option<Expr>> {
        let Some(node) = self.term()? else { return Ok(None) };
        if self.peek().kind != Kind::Field {
            return Ok(Some(node));
        }
        let pos = self.peek().pos;
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            fields.push(self.take().text[1..].to_owned());
        }
        Ok(Some(match node {
            Expr::Field(_, mut names) => {
                names.extend(fields);
                Expr::Field(pos, names)
            }
            Expr::Variable(_, mut names) => {
                names.extend(fields);
                Expr::Variable(pos, names)
            }
            Expr::Bool(..) | Expr::Text(..) | Expr::Number(..) | Expr::Nil(_) | Expr::Dot(_) => {
                return self.fail(pos, format!("unexpected . after term {:?}", node.to_string()));
            }
            other => Expr::Chain(pos, Box::new(other), fields),
        }))
    }

    fn term(&mut self) -> Parsed<Option<Expr>> {
        let token = self.take();
        let pos = token.pos;
        Ok(Some(match token.kind {
            Kind::Identifier => {
                if !(self.is_function)(&token.text) {
                    return self.fail(pos, format!("function {:?} not defined", token.text));
                }
                Expr::Function(pos, token.text)
            }
            Kind::Dot => Expr::Dot(pos),
            Kind::Nil => Expr::Nil(pos),
            Kind::Variable => {
                self.check_variable(&token)?;
                Expr::Variable(pos, vec![token.text])
            }
            Kind::Field => Expr::Field(pos, vec![token.text[1..].to_owned()]),
            Kind::Bool => Expr::Bool(pos, token.text == "true"),
            Kind::Character | Kind::Number => match Number::parse(&token.text) {
                Some(number) => Expr::Number(pos, number),
                None => return self.fail(pos, format!("malformed constant {}", token.text)),
            },
            Kind::LeftParenthesis => {
                self.deeper(pos)?;
                let pipe = self.pipeline("parenthesized pipeline", &Kind::RightParenthesis)?;
                self.depth -= 1;
                Expr::Pipe(pipe)
            }
            Kind::Quoted | Kind::Raw => {
                let text = self.text_of(&token)?;
                Expr::Text(pos, token.text, text)
            }
            _ => {
                self.next -= 1;
                return Ok(None);
            }
        }))
    }
}
