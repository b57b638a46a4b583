//! Arithmetic. Integers wrap as Go's do; floats go through decimals, so that 0.1 and 0.2 make 0.3.

use super::decimal::Decimal;
use crate::convert::{to_float, to_int64};
use crate::exec::Scope;
use crate::format::sprint;
use crate::functions::{
    Function,
    Type::{Any, Float, Int, Text},
    int, takes, takes_more, text,
};
use crate::value::{Elem, IntType, List, Value};

type Done<T> = Result<T, String>;

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("atoi", &[Text], |_, a| {
        let read = text(&a[0]);
        let plain = read.strip_prefix('+').filter(|rest| !rest.starts_with('-')).unwrap_or(read);
        Ok(Value::Int(plain.parse().unwrap_or(0), IntType::Int))
    }),
    takes("int64", &[Any], |_, a| Ok(Value::int64(to_int64(&a[0])))),
    takes("int", &[Any], |_, a| Ok(Value::Int(to_int64(&a[0]), IntType::Int))),
    takes("float64", &[Any], |_, a| Ok(Value::Float(to_float(&a[0])))),
    takes("toDecimal", &[Any], |s, a| {
        let shown = sprint(s, &a[..1])?;
        Ok(Value::int64(i64::from_str_radix(&shown, 8).unwrap_or(0)))
    }),
    takes("add1", &[Any], |_, a| Ok(Value::int64(to_int64(&a[0]).wrapping_add(1)))),
    takes_more("add", &[], Any, |_, a| Ok(Value::int64(a.iter().map(to_int64).fold(0, i64::wrapping_add)))),
    takes("sub", &[Any, Any], |_, a| Ok(Value::int64(to_int64(&a[0]).wrapping_sub(to_int64(&a[1]))))),
    takes("div", &[Any, Any], |_, a| match to_int64(&a[1]) {
        0 => Err("runtime error: integer divide by zero".into()),
        by => Ok(Value::int64(to_int64(&a[0]).wrapping_div(by))),
    }),
    takes("mod", &[Any, Any], |_, a| match to_int64(&a[1]) {
        0 => Err("runtime error: integer divide by zero".into()),
        by => Ok(Value::int64(to_int64(&a[0]).wrapping_rem(by))),
    }),
    takes_more("mul", &[Any], Any, |_, a| {
        Ok(Value::int64(a.iter().map(to_int64).fold(1, i64::wrapping_mul)))
    }),
    takes("add1f", &[Any], |_, a| decimal(&[a[0].clone(), Value::Float(1.0)], Decimal::add)),
    takes_more("addf", &[], Any, |_, a| decimal(&[&[Value::Float(0.0)], a].concat(), Decimal::add)),
    takes_more("subf", &[Any], Any, |_, a| decimal(a, Decimal::sub)),
    takes_more("mulf", &[Any], Any, |_, a| decimal(a, Decimal::mul)),
    takes_more("divf", &[Any], Any, |_, a| {
        if a[1..].iter().any(|by| to_float(by) == 0.0) {
            return Err("decimal division by 0".into());
        }
        decimal(a, Decimal::div)
    }),
    takes_more("biggest", &[Any], Any, |_, a| Ok(Value::int64(a.iter().map(to_int64).max().unwrap_or(0)))),
    takes_more("max", &[Any], Any, |_, a| Ok(Value::int64(a.iter().map(to_int64).max().unwrap_or(0)))),
    takes_more("min", &[Any], Any, |_, a| Ok(Value::int64(a.iter().map(to_int64).min().unwrap_or(0)))),
    takes_more("maxf", &[Any], Any, |_, a| {
        Ok(Value::Float(a.iter().map(to_float).fold(f64::NEG_INFINITY, f64::max)))
    }),
    takes_more("minf", &[Any], Any, |_, a| {
        Ok(Value::Float(a.iter().map(to_float).fold(f64::INFINITY, f64::min)))
    }),
    takes("ceil", &[Any], |_, a| Ok(Value::Float(to_float(&a[0]).ceil()))),
    takes("floor", &[Any], |_, a| Ok(Value::Float(to_float(&a[0]).floor()))),
    takes_more("round", &[Any, Int], Float, |_, a| {
        let round_on = a.get(2).map_or(0.5, to_float);
        let power = 10_f64.powi(i32::try_from(int(&a[1])).unwrap_or(0));
        let digit = power * to_float(&a[0]);
        let rounded = if digit.fract() >= round_on { digit.ceil() } else { digit.floor() };
        Ok(Value::Float(rounded / power))
    }),
    takes("until", &[Int], |s, a| {
        let count = int(&a[0]);
        Ok(ints(steps(s, 0, count, if count < 0 { -1 } else { 1 })?))
    }),
    takes("untilStep", &[Int, Int, Int], |s, a| Ok(ints(steps(s, int(&a[0]), int(&a[1]), int(&a[2]))?))),
    takes_more("seq", &[], Int, |s, a| {
        let numbers: Vec<i64> = a.iter().map(int).collect();
        let made = match numbers[..] {
            [end] => {
                let by = if end < 1 { -1 } else { 1 };
                steps(s, 1, end.saturating_add(by), by)?
            }
            [start, end] => {
                let by = if end < start { -1 } else { 1 };
                steps(s, start, end.saturating_add(by), by)?
            }
            [start, step, end] => {
                let by = if end < start { -1 } else { 1 };
                if end < start && step > 0 {
                    return Ok("".into());
                }
                steps(s, start, end.saturating_add(by), step)?
            }
            _ => return Ok("".into()),
        };
        let texts: Vec<String> = made.iter().map(i64::to_string).collect();
        Ok(texts.join(" ").into())
    }),
];

fn decimal(values: &[Value], operation: fn(Decimal, Decimal) -> Decimal) -> Done<Value> {
    let mut numbers = values.iter().map(|value| Decimal::from_float(to_float(value)));
    let first = numbers.next().unwrap_or_default();
    Ok(Value::Float(numbers.fold(first, operation).to_float()))
}

fn ints(numbers: Vec<i64>) -> Value {
    let items = numbers.into_iter().map(|number| Value::Int(number, IntType::Int)).collect();
    Value::List(List::new(Elem::Int, items))
}

fn steps(scope: &mut Scope<'_>, start: i64, stop: i64, step: i64) -> Done<Vec<i64>> {
    if (stop < start && step >= 0) || (stop >= start && step <= 0) {
        return Ok(Vec::new());
    }
    let count = stop.abs_diff(start).div_ceil(step.unsigned_abs());
    scope.steps(usize::try_from(count).unwrap_or(usize::MAX))?;
    let mut made = Vec::new();
    let mut number = start;
    for _ in 0..count {
        made.push(number);
        number = number.saturating_add(step);
    }
    Ok(made)
}
