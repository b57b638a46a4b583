//! sprig's functions, by what they are about. The spelling of names and the oddities are sprig's: templates lean
//! on both.

mod case;
pub(crate) mod date;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod layout;
mod lists;
pub(crate) mod methods;
mod numbers;
mod paths;
mod patterns;
mod randoms;
mod refused;
pub(crate) mod semver;
mod strings;
mod url;
mod wrap;

use crate::functions::Function;

pub(crate) fn tables() -> impl Iterator<Item = &'static [Function]> {
    [
        strings::FUNCTIONS,
        case::FUNCTIONS,
        wrap::FUNCTIONS,
        numbers::FUNCTIONS,
        lists::FUNCTIONS,
        dicts::FUNCTIONS,
        defaults::FUNCTIONS,
        encoding::FUNCTIONS,
        date::FUNCTIONS,
        patterns::FUNCTIONS,
        paths::FUNCTIONS,
        semver::FUNCTIONS,
        url::FUNCTIONS,
        randoms::FUNCTIONS,
        refused::FUNCTIONS,
    ]
    .into_iter()
}
