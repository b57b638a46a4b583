//! Breaking and shortening text.

use super::strings::bytes_of;
use crate::functions::{
    Function,
    Type::{Int, Text},
    int, takes, text,
};

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("wrap", &[Int, Text], |_, a| Ok(wrap(text(&a[1]), int(&a[0]), "\n", false).into())),
    takes("wrapWith", &[Int, Text, Text], |s, a| {
        let separator = if text(&a[1]).is_empty() { "\n" } else { text(&a[1]) };
        s.charge(text(&a[2]).len().saturating_mul(separator.len() + 1))?;
        Ok(wrap(text(&a[2]), int(&a[0]), separator, true).into())
    }),
    takes("abbrev", &[Int, Text], |_, a| {
        let (width, text) = (int(&a[0]), text(&a[1]));
        Ok(if width < 4 { text.into() } else { abbreviate(text, 0, width as usize).into() })
    }),
    takes("abbrevboth", &[Int, Int, Text], |_, a| {
        let (left, right, text) = (int(&a[0]), int(&a[1]), text(&a[2]));
        if right < 4 || left > 0 && right < 7 {
            return Ok(text.into());
        }
        Ok(abbreviate(text, left.max(0) as usize, right as usize).into())
    }),
];

/// Widths are in bytes, as goutils counts them.
fn wrap(text: &str, width: i64, separator: &str, break_words: bool) -> String {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let bytes = text.as_bytes();
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut offset = 0;
    while bytes.len() - offset > width {
        if bytes[offset] == b' ' {
            offset += 1;
            continue;
        }
        let end = width + offset;
        if let Some(space) = bytes[offset..=end].iter().rposition(|byte| *byte == b' ') {
            out.extend(&bytes[offset..offset + space]);
            offset += space + 1;
        } else if break_words {
            out.extend(&bytes[offset..end]);
            offset = end;
        } else {
            match bytes[end..].iter().position(|byte| *byte == b' ') {
                Some(space) => {
                    out.extend(&bytes[offset..end + space]);
                    offset = end + space + 1;
                }
                None => {
                    out.extend(&bytes[offset..]);
                    offset = bytes.len();
                    break;
                }
            }
        }
        out.extend(separator.as_bytes());
    }
    out.extend(&bytes[offset..]);
    String::from_utf8_lossy(&out).into_owned()
}

fn abbreviate(text: &str, offset: usize, width: usize) -> String {
    let length = text.len();
    if length <= width {
        return text.to_owned();
    }
    let mut offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return format!("{}...", bytes_of(text, 0, width - 3));
    }
    if width < 7 {
        return String::new();
    }
    if offset + width - 3 < length {
        return format!("...{}", abbreviate(&bytes_of(text, offset, length), 0, width - 3));
    }
    format!("...{}", bytes_of(text, length - (width - 3), length))
}
