//! Fields, methods, functions and their arguments.

use super::{At, Operand, Run, Step};
use crate::MissingKey;
use crate::ast::Expr;
use crate::format::go_quote;
use crate::functions::{Function, Type};
use crate::sprig::methods;
use crate::value::{IntType, Value};

impl<'t> Run<'t, '_> {
    pub(super) fn field_chain(
        &mut self,
        dot: &Operand,
        mut receiver: Operand,
        node: &'t Expr,
        names: &'t [String],
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Step<Operand> {
        let (end, before) = names.split_last().expect("a chain has a field");
        for name in before {
            receiver = self.field(dot, name, node, &[], None, receiver)?;
        }
        self.field(dot, end, node, arguments, last, receiver)
    }

    fn field(
        &mut self,
        dot: &Operand,
        name: &'t str,
        node: &'t Expr,
        arguments: &'t [Expr],
        last: Option<Value>,
        receiver: Operand,
    ) -> Step<Operand> {
        let of = receiver.type_name();
        match &receiver.value {
            Value::Missing => {
                if self.template.missing_key == MissingKey::Error {
                    return self.fail(format!("nil data; no entry for key {}", go_quote(name)));
                }
                Ok(Operand::plain(Value::Missing))
            }
            Value::Nil => self.fail(format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(map) => {
                if arguments.len() > 1 || last.is_some() {
                    return self.fail(format!("{name} is not a method but has arguments"));
                }
                if let Some(value) = map.get(name) {
                    return Ok(Operand { value, boxed: !map.of_text });
                }
                match self.template.missing_key {
                    MissingKey::Invalid => Ok(Operand::plain(Value::Missing)),
                    MissingKey::Zero if map.of_text => Ok(Operand::plain(Value::from(""))),
                    MissingKey::Zero => Ok(Operand { value: Value::Nil, boxed: true }),
                    MissingKey::Error => self.fail(format!("map has no entry for key {}", go_quote(name))),
                }
            }
            value => match methods::find(value, name) {
                Some(method) => {
                    let arguments = arguments.get(1..).unwrap_or_default();
                    let receiver = receiver.value.clone();
                    self.call(dot, method, At::Expr(node), arguments, last, Some(receiver))
                }
                None => self.fail(format!("can't evaluate field {name} in type {of}")),
            },
        }
    }

    pub(super) fn function(
        &mut self,
        dot: &Operand,
        name: &'t str,
        whole: At<'t>,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Step<Operand> {
        let Some(function) = self.template.functions.find(name) else {
            return self.fail(format!("{} is not a defined function", go_quote(name)));
        };
        let arguments = arguments.get(1..).unwrap_or_default();
        self.call(dot, function, whole, arguments, last, None)
    }

    fn call(
        &mut self,
        dot: &Operand,
        function: &'t Function,
        whole: At<'t>,
        arguments: &'t [Expr],
        last: Option<Value>,
        receiver: Option<Value>,
    ) -> Step<Operand> {
        // A method's first parameter is its receiver, which is not written as an argument.
        let fixed = &function.fixed[usize::from(receiver.is_some())..];
        let name = function.name;
        let given = arguments.len() + usize::from(last.is_some());
        match function.variadic {
            Some(_) if given < fixed.len() => {
                return self.fail(format!(
                    "wrong number of args for {name}: want at least {} got {}",
                    fixed.len(),
                    arguments.len()
                ));
            }
            None if given != fixed.len() => {
                return self
                    .fail(format!("wrong number of args for {name}: want {} got {given}", fixed.len()));
            }
            _ => {}
        }
        if receiver.is_none() && matches!(name, "and" | "or") {
            return self.short_circuit(dot, name == "or", arguments, last);
        }
        let receiver_is_none = receiver.is_none();
        let kind = |index: usize| fixed.get(index).copied().or(function.variadic).unwrap_or(Type::Any);
        let mut values: Vec<Value> = Vec::with_capacity(given + 1);
        values.extend(receiver);
        for (index, argument) in arguments.iter().enumerate() {
            let kind = kind(index);
            let value = self.argument(dot, kind, argument)?;
            values.push(if kind == Type::Reflect { value } else { value.or_nil() });
        }
        if let Some(last) = last {
            let kind = kind(arguments.len());
            let value = self.check_type(Operand::plain(last), kind)?;
            values.push(if kind == Type::Reflect { value } else { value.or_nil() });
        }
        if receiver_is_none && name == crate::chart::INCLUDE {
            return self.include(whole, &values);
        }
        let outcome = (function.body)(&mut self.scope, &values).and_then(|value| self.scope.admit(value));
        match outcome {
            Ok(value) => Ok(Operand { boxed: matches!(value, Value::Nil), value }),
            Err(message) => {
                self.at = whole;
                self.fail(format!("error calling {name}: {message}"))
            }
        }
    }

    /// A defined template as text, where `template` would write it.
    fn include(&mut self, whole: At<'t>, values: &[Value]) -> Step<Operand> {
        let name = values.first().map(crate::functions::text).unwrap_or_default();
        let dot = Operand::plain(values.get(1).cloned().unwrap_or(Value::Missing));
        let Some((name, tree)) = self.template.trees.get_key_value(name) else {
            self.at = whole;
            return self.fail(format!("error calling include: template {} not defined", go_quote(name)));
        };
        self.deeper()?;
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), dot.clone())]);
        let outer = std::mem::replace(&mut self.tree, name);
        let before = std::mem::take(&mut self.output);
        self.list(&dot, &tree.nodes)?;
        let text = std::mem::replace(&mut self.output, before);
        self.tree = outer;
        self.variables = variables;
        self.depth -= 1;
        let text = self.scope.admit(Value::from(text.as_str()));
        Ok(Operand::plain(self.or_fail(text)?))
    }

    fn short_circuit(
        &mut self,
        dot: &Operand,
        or: bool,
        arguments: &'t [Expr],
        last: Option<Value>,
    ) -> Step<Operand> {
        let mut value = Value::Missing;
        for argument in arguments {
            value = self.argument(dot, Type::Reflect, argument)?;
            if value.is_true() == or {
                return Ok(Operand::plain(value));
            }
        }
        Ok(Operand::plain(last.unwrap_or(value)))
    }

    /// One argument for a parameter of this type.
    pub(super) fn argument(&mut self, dot: &Operand, kind: Type, expr: &'t Expr) -> Step<Value> {
        self.at = At::Expr(expr);
        let operand = match expr {
            Expr::Dot(_) => dot.clone(),
            Expr::Nil(_) => {
                if kind.can_be_nil() {
                    return Ok(Value::Missing);
                }
                return self.fail(format!("cannot assign nil to {}", kind.name()));
            }
            Expr::Field(_, names) => self.field_chain(dot, dot.clone(), expr, names, &[], None)?,
            Expr::Variable(_, names) => self.variable(dot, expr, names, &[], None)?,
            Expr::Pipe(pipe) => Operand::plain(self.nested(dot, pipe)?),
            Expr::Function(_, name) => self.function(dot, name, At::Expr(expr), &[], None)?,
            Expr::Chain(_, node, names) => {
                let receiver = self.chain_receiver(dot, expr, node)?;
                self.field_chain(dot, receiver, expr, names, &[], None)?
            }
            constant => return self.typed_constant(kind, constant),
        };
        self.check_type(operand, kind)
    }

    /// Go's validateType.
    fn check_type(&self, operand: Operand, kind: Type) -> Step<Value> {
        match &operand.value {
            Value::Missing if kind.can_be_nil() => Ok(Value::Missing),
            Value::Missing => self.fail(format!("invalid value; expected {}", kind.name())),
            Value::Nil if matches!(kind, Type::Any | Type::Reflect) => Ok(Value::Nil),
            Value::Nil => {
                self.fail(format!("wrong type for value; expected {}; got interface {{}}", kind.name()))
            }
            value if kind.takes(value) => Ok(operand.value),
            value => self.fail(format!(
                "wrong type for value; expected {}; got {}",
                kind.name(),
                value.type_name()
            )),
        }
    }

    fn typed_constant(&mut self, kind: Type, constant: &'t Expr) -> Step<Value> {
        match (kind, constant) {
            (Type::Any | Type::Reflect, _) => self.constant(constant),
            (Type::Text, Expr::Text(_, _, text)) => Ok(Value::from(text.as_str())),
            (Type::Text, _) => self.fail(format!("expected string; found {constant}")),
            (Type::Bool, Expr::Bool(_, value)) => Ok(Value::Bool(*value)),
            (Type::Bool, _) => self.fail(format!("expected bool; found {constant}")),
            (Type::Int, Expr::Number(_, number)) if number.int.is_some() => {
                Ok(Value::Int(number.int.unwrap_or(0), IntType::Int))
            }
            (Type::Int, _) => self.fail(format!("expected integer; found {constant}")),
            (Type::Float, Expr::Number(_, number)) if number.float.is_some() => {
                Ok(Value::Float(number.float.unwrap_or(0.0)))
            }
            (Type::Float, _) => self.fail(format!("expected float; found {constant}")),
            (Type::Dict | Type::Time, _) => {
                self.fail(format!("can't handle {constant} for arg of type {}", kind.name()))
            }
        }
    }
}
