//! Go's reference-time layouts: which stretch of a layout means what.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part<'l> {
    Literal(&'l str),
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    Pm,
    SmallPm,
    Zone,
    /// `Z` for UTC, colons, seconds: `Z07:00`, `-0700`, …
    Offset {
        z: bool,
        colons: bool,
        parts: u8,
    },
    /// `.000` (all digits) or `.999` (without trailing zeros), with a point or a comma.
    Fraction {
        digits: usize,
        trim: bool,
        comma: bool,
    },
}

const NAMES: &[(&str, Part<'static>)] = &[
    ("January", Part::LongMonth),
    ("Jan", Part::Month),
    ("Monday", Part::LongWeekday),
    ("Mon", Part::Weekday),
    ("MST", Part::Zone),
    ("2006", Part::LongYear),
    ("__2", Part::UnderYearDay),
    ("_2006", Part::Literal("_")),
    ("_2", Part::UnderDay),
    ("002", Part::ZeroYearDay),
    ("01", Part::ZeroMonth),
    ("02", Part::ZeroDay),
    ("03", Part::ZeroHour12),
    ("04", Part::ZeroMinute),
    ("05", Part::ZeroSecond),
    ("06", Part::Year),
    ("15", Part::Hour),
    ("1", Part::NumMonth),
    ("2", Part::Day),
    ("3", Part::Hour12),
    ("4", Part::Minute),
    ("5", Part::Second),
    ("PM", Part::Pm),
    ("pm", Part::SmallPm),
    ("Z070000", Part::Offset { z: true, colons: false, parts: 3 }),
    ("Z07:00:00", Part::Offset { z: true, colons: true, parts: 3 }),
    ("Z0700", Part::Offset { z: true, colons: false, parts: 2 }),
    ("Z07:00", Part::Offset { z: true, colons: true, parts: 2 }),
    ("Z07", Part::Offset { z: true, colons: false, parts: 1 }),
    ("-070000", Part::Offset { z: false, colons: false, parts: 3 }),
    ("-07:00:00", Part::Offset { z: false, colons: true, parts: 3 }),
    ("-0700", Part::Offset { z: false, colons: false, parts: 2 }),
    ("-07:00", Part::Offset { z: false, colons: true, parts: 2 }),
    ("-07", Part::Offset { z: false, colons: false, parts: 1 }),
];

/// The parts of a layout, in order.
pub(super) fn parts(layout: &str) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    let (mut literal, mut at) = (0, 0);
    while at < layout.len() {
        let rest = &layout[at..];
        let Some((length, part)) = part_at(rest) else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        if literal < at {
            found.push(Part::Literal(&layout[literal..at]));
        }
        found.push(part);
        at += length;
        literal = at;
    }
    if literal < layout.len() {
        found.push(Part::Literal(&layout[literal..]));
    }
    found
}

fn part_at(rest: &str) -> Option<(usize, Part<'static>)> {
    if let Some(fraction) = fraction_at(rest) {
        return Some(fraction);
    }
    for (name, part) in NAMES {
        if !rest.starts_with(name) {
            continue;
        }
        let after = rest[name.len()..].chars().next();
        match *name {
            // `Janus` is no month.
            "Jan" | "Mon" if after.is_some_and(|c| c.is_ascii_lowercase()) => continue,
            "_2006" => return Some((1, *part)),
            _ => return Some((name.len(), *part)),
        }
    }
    None
}

fn fraction_at(rest: &str) -> Option<(usize, Part<'static>)> {
    let bytes = rest.as_bytes();
    let comma = match bytes.first()? {
        b'.' => false,
        b',' => true,
        _ => return None,
    };
    let digit = *bytes.get(1)?;
    if digit != b'0' && digit != b'9' {
        return None;
    }
    let digits = bytes[1..].iter().take_while(|byte| **byte == digit).count();
    // `.00x5` is no fraction: a digit must not follow.
    if bytes.get(1 + digits).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    Some((1 + digits, Part::Fraction { digits, trim: digit == b'9', comma }))
}
