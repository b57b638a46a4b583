//! Filling a template: walks the tree, evaluates pipelines, keeps variables, writes text.
//!
//! The rules for missing values, nil and types follow text/template's exec.go; the messages too, because people
//! search for them.

mod call;
mod scope;

use std::collections::BTreeMap;

use crate::ast::{Branch, Command, Expr, Node, Pipe, Pos, Tree};
use crate::data::Data;
use crate::environment::Environment;
use crate::error::{TemplateError, line_and_column};
use crate::format::{go_quote, sprint};
use crate::functions::{Functions, Type};
use crate::number::Number;
use crate::value::{Elem, IntType, Value};

pub(crate) use scope::Scope;

/// What a key that is not there means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// `missingkey=default` and `=invalid`: prints `<no value>`.
    #[default]
    Invalid,
    /// `missingkey=zero`: the zero value of the map's element type.
    Zero,
    /// `missingkey=error`.
    Error,
}

/// A template that was read; fill it as often as you like.
pub struct Template {
    name: String,
    text: String,
    trees: BTreeMap<String, Tree>,
    functions: &'static Functions,
    missing_key: MissingKey,
}

impl Template {
    /// Reads a template. Options are those of `goTemplateOptions`.
    pub fn parse(
        name: &str,
        text: &str,
        options: &[impl AsRef<str>],
        functions: &'static Functions,
    ) -> Result<Self, TemplateError> {
        let mut missing_key = MissingKey::default();
        for option in options {
            missing_key = match option.as_ref() {
                "missingkey=default" | "missingkey=invalid" => MissingKey::Invalid,
                "missingkey=zero" => MissingKey::Zero,
                "missingkey=error" => MissingKey::Error,
                other => return Err(TemplateError::Option(other.to_owned())),
            };
        }
        let trees = crate::parse::parse(name, text, &|function| functions.find(function).is_some())?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), trees, functions, missing_key })
    }

    /// Fills it.
    pub fn render(&self, data: &Data, environment: &mut Environment<'_>) -> Result<String, TemplateError> {
        let limits = environment.limits;
        let mut scope = Scope::new(environment);
        let refused = |message| TemplateError::Execute {
            name: self.name.clone(),
            template: self.name.clone(),
            line: 1,
            column: 0,
            context: ".".into(),
            message,
        };
        let root = Operand { value: scope.value_of(data).map_err(refused)?, boxed: false };
        let mut run = Run {
            template: self,
            scope,
            output: String::new(),
            output_max: limits.output_bytes,
            variables: vec![("$".to_owned(), root.clone())],
            tree: &self.name,
            depth: 0,
            depth_max: limits.depth,
            at: At::Start,
        };
        let tree = self.trees.get(&self.name).expect("the parser defines the text itself");
        match run.list(&root, &tree.nodes) {
            Ok(()) | Err(Flow::Break | Flow::Continue) => Ok(run.output),
            Err(Flow::Failed(error)) => Err(*error),
        }
    }
}

/// A value, and whether it still lies in an interface: Go names `interface {}` as its type then.
#[derive(Clone)]
pub(crate) struct Operand {
    pub(crate) value: Value,
    pub(crate) boxed: bool,
}

impl Operand {
    fn plain(value: Value) -> Self {
        Self { value, boxed: false }
    }

    fn type_name(&self) -> &'static str {
        if self.boxed { "interface {}" } else { self.value.type_name() }
    }
}

/// Why walking stopped.
enum Flow {
    Break,
    Continue,
    Failed(Box<TemplateError>),
}

type Step<T> = Result<T, Flow>;

/// The node that is being looked at, for messages.
#[derive(Clone, Copy)]
enum At<'t> {
    Start,
    Pipe(&'t Pipe),
    Command(&'t Command),
    Expr(&'t Expr),
    Node(Pos, &'t str, Option<&'t Pipe>),
}

struct Run<'t, 'e> {
    template: &'t Template,
    scope: Scope<'e>,
    output: String,
    output_max: usize,
    variables: Vec<(String, Operand)>,
    /// The defined template that is being filled.
    tree: &'t str,
    depth: usize,
    depth_max: usize,
    at: At<'t>,
}

impl<'t> Run<'t, '_> {
    fn fail<T>(&self, message: impl Into<String>) -> Step<T> {
        let (pos, context) = match self.at {
            At::Start => (0, ".".to_owned()),
            At::Pipe(pipe) => (pipe.pos, pipe.to_string()),
            At::Command(command) => (command.pos, command.to_string()),
            At::Expr(expr) => (expr.pos(), expr.to_string()),
            At::Node(pos, name, pipe) => {
                let pipe = pipe.map(|pipe| format!(" {pipe}")).unwrap_or_default();
                (pos, format!("{{{{template {}{pipe}}}}}", go_quote(name)))
            }
        };
        let (line, column) = line_and_column(&self.template.text, pos);
        Err(Flow::Failed(Box::new(TemplateError::Execute {
            name: self.template.name.clone(),
            template: self.tree.to_owned(),
            line,
            column,
            context,
            message: message.into(),
        })))
    }

    fn or_fail<T>(&self, result: Result<T, String>) -> Step<T> {
        result.or_else(|message| self.fail(message))
    }

    fn deeper(&mut self) -> Step<()> {
        self.depth += 1;
        if self.depth > self.depth_max {
            return self.fail(format!("exceeded maximum template depth ({})", self.depth_max));
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Step<()> {
        if self.output.len() + text.len() > self.output_max {
            return self.fail(format!(
                "the result has more than {} bytes; let the template make less",
                self.output_max
            ));
        }
        self.output.push_str(text);
        Ok(())
    }

    fn list(&mut self, dot: &Operand, nodes: &'t [Node]) -> Step<()> {
        nodes.iter().try_for_each(|node| self.walk(dot, node))
    }

    fn walk(&mut self, dot: &Operand, node: &'t Node) -> Step<()> {
        let counted = self.scope.step();
        self.or_fail(counted)?;
        match node {
            Node::Text(text) => self.write(text),
            Node::Action(pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if !pipe.declare.is_empty() {
                    return Ok(());
                }
                let text = match &value {
                    Value::Text(text) => return self.write(text),
                    Value::Missing => return self.write("<no value>"),
                    other => sprint(&mut self.scope, std::slice::from_ref(other)),
                };
                let text = self.or_fail(text)?;
                self.write(&text)
            }
            Node::If(branch) => self.conditional(dot, branch, false),
            Node::With(branch) => self.conditional(dot, branch, true),
            Node::Range(branch) => {
                let mark = self.variables.len();
                self.deeper()?;
                let done = self.range(dot, branch);
                self.depth -= 1;
                self.variables.truncate(mark);
                match done {
                    Err(Flow::Break) => Ok(()),
                    other => other,
                }
            }
            Node::Template { pos, name, pipe } => self.invoke(dot, *pos, name, pipe.as_ref()),
            Node::Break => Err(Flow::Break),
            Node::Continue => Err(Flow::Continue),
        }
    }

    fn conditional(&mut self, dot: &Operand, branch: &'t Branch, with: bool) -> Step<()> {
        let mark = self.variables.len();
        self.deeper()?;
        let value = self.pipeline(dot, &branch.pipe)?;
        let done = if !value.is_true() {
            self.list(dot, &branch.otherwise)
        } else if with {
            self.list(&Operand::plain(value), &branch.list)
        } else {
            self.list(dot, &branch.list)
        };
        self.depth -= 1;
        self.variables.truncate(mark);
        done
    }

    fn range(&mut self, dot: &Operand, branch: &'t Branch) -> Step<()> {
        let value = self.pipeline(dot, &branch.pipe)?;
        let mark = self.variables.len();
        let mut any = false;
        match &value {
            Value::Int(count, _) => {
                if branch.pipe.declare.len() > 1 {
                    return self.fail(format!("can't use {count} to iterate over more than one variable"));
                }
                for index in 0..*count {
                    any = true;
                    let element = Operand::plain(Value::Int(index, IntType::Int));
                    self.round(branch, mark, Operand::plain(Value::Missing), element)?;
                }
            }
            Value::List(list) => {
                for (index, item) in list.items.iter().enumerate() {
                    any = true;
                    let element = Operand { value: item.clone(), boxed: list.elem == Elem::Any };
                    self.round(branch, mark, Operand::plain(Value::int(index)), element)?;
                }
            }
            Value::Map(map) => {
                for (key, item) in map.snapshot() {
                    any = true;
                    let element = Operand { value: item, boxed: !map.of_text };
                    self.round(branch, mark, Operand::plain(Value::from(key)), element)?;
                }
            }
            Value::Missing | Value::Nil => {}
            other => {
                let shown = sprint(&mut self.scope, std::slice::from_ref(other));
                let shown = self.or_fail(shown)?;
                return self.fail(format!("range can't iterate over {shown}"));
            }
        }
        if any { Ok(()) } else { self.list(dot, &branch.otherwise) }
    }

    fn round(&mut self, branch: &'t Branch, mark: usize, index: Operand, element: Operand) -> Step<()> {
        let counted = self.scope.step();
        self.or_fail(counted)?;
        let names = &branch.pipe.declare;
        let of_names: Vec<Operand> = match names.len() {
            0 => Vec::new(),
            1 => vec![element.clone()],
            _ => vec![index, element.clone()],
        };
        for (name, value) in names.iter().zip(of_names) {
            self.set_variable(name, value);
        }
        let done = self.list(&element, &branch.list);
        self.variables.truncate(mark);
        match done {
            Err(Flow::Continue) => Ok(()),
            other => other,
        }
    }

    fn set_variable(&mut self, name: &str, value: Operand) {
        if let Some(slot) = self.variables.iter_mut().rev().find(|(known, _)| known == name) {
            slot.1 = value;
        }
    }

    fn invoke(&mut self, dot: &Operand, pos: Pos, name: &'t str, pipe: Option<&'t Pipe>) -> Step<()> {
        self.at = At::Node(pos, name, pipe);
        let Some((name, tree)) = self.template.trees.get_key_value(name) else {
            return self.fail(format!("template {} not defined", go_quote(name)));
        };
        self.deeper()?;
        let dot = match pipe {
            Some(pipe) => Operand::plain(self.pipeline(dot, pipe)?),
            None => Operand::plain(Value::Missing),
        };
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), dot.clone())]);
        let outer = std::mem::replace(&mut self.tree, name);
        self.list(&dot, &tree.nodes)?;
        self.tree = outer;
        self.variables = variables;
        self.depth -= 1;
        Ok(())
    }

    fn pipeline(&mut self, dot: &Operand, pipe: &'t Pipe) -> Step<Value> {
        self.at = At::Pipe(pipe);
        let mut last = None;
        for command in &pipe.commands {
            last = Some(self.command(dot, command, last)?.value.unboxed());
        }
        let value = last.unwrap_or(Value::Missing);
        for name in &pipe.declare {
            let operand = Operand::plain(value.clone());
            if pipe.assign {
                self.set_variable(name, operand);
            } else {
                self.variables.push((name.clone(), operand));
            }
        }
        Ok(value)
    }

    fn command(&mut self, dot: &Operand, command: &'t Command, last: Option<Value>) -> Step<Operand> {
        let counted = self.scope.step();
        self.or_fail(counted)?;
        let arguments = &command.arguments[..];
        let first = &arguments[0];
        match first {
            Expr::Field(_, names) => {
                self.at = At::Expr(first);
                return self.field_chain(dot, dot.clone(), first, names, arguments, last);
            }
            Expr::Chain(_, node, names) => {
                let receiver = self.chain_receiver(dot, first, node)?;
                return self.field_chain(dot, receiver, first, names, arguments, last);
            }
            Expr::Function(_, name) => {
                self.at = At::Expr(first);
                return self.function(dot, name, At::Command(command), arguments, last);
            }
            Expr::Pipe(pipe) => {
                self.not_a_function(arguments, &last)?;
                return self.nested(dot, pipe).map(Operand::plain);
            }
            Expr::Variable(_, names) => {
                self.at = At::Expr(first);
                return self.variable(dot, first, names, arguments, last);
            }
            _ => {}
        }
        self.at = At::Expr(first);
        self.not_a_function(arguments, &last)?;
        match first {
            Expr::Dot(_) => Ok(dot.clone()),
            Expr::Nil(_) => self.fail("nil is not a command"),
            other => self.constant(other).map(Operand::plain),
        }
    }

    fn nested(&mut self, dot: &Operand, pipe: &'t Pipe) -> Step<Value> {
        self.deeper()?;
        let value = self.pipeline(dot, pipe)?;
        self.depth -= 1;
        Ok(value)
    }

    fn not_a_function(&self, arguments: &[Expr], last: &Option<Value>) -> Step<()> {
        if arguments.len() > 1 || last.is_some() {
            let first = match arguments.first() {
                Some(Expr::Pipe(pipe)) => pipe.to_string(),
                Some(first) => first.to_string(),
                None => String::new(),
            };
            return self.fail(format!("can't give argument to non-function {first}"));
        }
        Ok(())
    }

    fn constant(&mut self, expr: &'t Expr) -> Step<Value> {
        match expr {
            Expr::Bool(_, value) => Ok(Value::Bool(*value)),
            Expr::Text(_, _, text) => Ok(Value::from(text.as_str())),
            Expr::Number(_, number) => self.ideal(number),
            other => self.fail(format!("can't evaluate command {}", go_quote(&other.to_string()))),
        }
    }

    /// A constant without a type asked for: int unless it is written as a float.
    fn ideal(&self, number: &Number) -> Step<Value> {
        match (number.is_written_as_float(), number.float, number.int) {
            (true, Some(float), _) => Ok(Value::Float(float)),
            (_, _, Some(int)) => Ok(Value::Int(int, IntType::Int)),
            _ => self.fail(format!("{} overflows int", number.text)),
        }
    }

    fn chain_receiver(&mut self, dot: &Operand, chain: &'t Expr, node: &'t Expr) -> Step<Operand> {
        self.at = At::Expr(chain);
        if matches!(node, Expr::Nil(_)) {
            return self.fail(format!("indirection through explicit nil in {chain}"));
        }
        match node {
            Expr::Pipe(pipe) => {
                self.at = At::Expr(node);
                self.nested(dot, pipe).map(Operand::plain)
            }
            other => self.argument(dot, Type::Reflect, other).map(Operand::plain),
        }
    }

    fn variable(
        &mut self,
        dot: &Operand,
        node: &'t Expr,
        names: &'t [String],
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Step<Operand> {
        let found = self.variables.iter().rev().find(|(known, _)| *known == names[0]);
        let Some(value) = found.map(|(_, value)| value.clone()) else {
            return self.fail(format!("undefined variable: {}", names[0]));
        };
        if names.len() == 1 {
            self.not_a_function(arguments, &last)?;
            return Ok(value);
        }
        self.field_chain(dot, value, node, &names[1..], arguments, last)
    }
}
