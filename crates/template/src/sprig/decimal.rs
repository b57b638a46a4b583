//! Decimals for `addf` and its family: exact as long as they fit, floats beyond.

/// `mantissa × 10^exponent`, or a float that does not fit into one.
#[derive(Clone, Copy)]
pub(crate) enum Decimal {
    Exact(i128, i32),
    Float(f64),
}

impl Default for Decimal {
    fn default() -> Self {
        Self::Exact(0, 0)
    }
}

/// Digits behind the point of a quotient.
const QUOTIENT_DIGITS: i32 = 16;

impl Decimal {
    pub(crate) fn from_float(value: f64) -> Self {
        if value == 0.0 {
            return Self::default();
        }
        let text = format!("{value:e}");
        let parsed = text.split_once('e').and_then(|(mantissa, exponent)| {
            let behind = mantissa.split_once('.').map_or(0, |(_, digits)| digits.len() as i32);
            let exponent: i32 = exponent.parse().ok()?;
            Some(Self::Exact(mantissa.replace('.', "").parse().ok()?, exponent - behind))
        });
        parsed.unwrap_or(Self::Float(value))
    }

    pub(crate) fn to_float(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Exact(mantissa, exponent) => format!("{mantissa}e{exponent}").parse().unwrap_or(f64::NAN),
        }
    }

    /// Both with the smaller exponent.
    fn aligned(self, other: Self) -> Option<(i128, i128, i32)> {
        let (Self::Exact(a, x), Self::Exact(b, y)) = (self, other) else { return None };
        let exponent = x.min(y);
        let scale = |mantissa: i128, from: i32| {
            mantissa.checked_mul(10_i128.checked_pow(u32::try_from(from - exponent).ok()?)?)
        };
        Some((scale(a, x)?, scale(b, y)?, exponent))
    }

    pub(crate) fn add(self, other: Self) -> Self {
        self.aligned(other)
            .and_then(|(a, b, exponent)| Some(Self::Exact(a.checked_add(b)?, exponent)))
            .unwrap_or_else(|| Self::Float(self.to_float() + other.to_float()))
    }

    pub(crate) fn sub(self, other: Self) -> Self {
        self.aligned(other)
            .and_then(|(a, b, exponent)| Some(Self::Exact(a.checked_sub(b)?, exponent)))
            .unwrap_or_else(|| Self::Float(self.to_float() - other.to_float()))
    }

    pub(crate) fn mul(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact(a, x), Self::Exact(b, y)) => match a.checked_mul(b) {
                Some(product) => Self::Exact(product, x + y),
                None => Self::Float(self.to_float() * other.to_float()),
            },
            _ => Self::Float(self.to_float() * other.to_float()),
        }
    }

    /// Rounded half away from zero, as shopspring/decimal does.
    pub(crate) fn div(self, other: Self) -> Self {
        let exact = || {
            let (a, b, _) = self.aligned(other)?;
            let scaled = a.checked_mul(10_i128.pow(QUOTIENT_DIGITS as u32))?;
            let (quotient, rest) = (scaled.checked_div(b)?, scaled % b);
            let up = rest.unsigned_abs().checked_mul(2)? >= b.unsigned_abs();
            let sign = if (a < 0) == (b < 0) { 1 } else { -1 };
            Some(Self::Exact(if up { quotient + sign } else { quotient }, -QUOTIENT_DIGITS))
        };
        exact().unwrap_or_else(|| Self::Float(self.to_float() / other.to_float()))
    }
}
