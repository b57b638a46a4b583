//! Small helpers over JSON values: dotted paths, times, quantities, names.

use base64::Engine as _;
use serde_json::{Map, Value};

/// Reading and writing by dotted path (`spec.template.metadata`); segments never contain dots.
pub(crate) trait Json {
    fn at(&self, path: &str) -> Option<&Value>;
    fn str_at(&self, path: &str) -> &str;
    fn int_at(&self, path: &str) -> Option<i64>;
    fn bool_at(&self, path: &str) -> bool;
    fn list_at(&self, path: &str) -> &[Value];
    fn map_at(&self, path: &str) -> Option<&Map<String, Value>>;
    fn set_at(&mut self, path: &str, value: Value);
    fn default_at(&mut self, path: &str, value: Value);
    fn remove_at(&mut self, path: &str) -> Option<Value>;
    fn at_mut(&mut self, path: &str) -> Option<&mut Value>;
    fn name(&self) -> &str;
    fn namespace(&self) -> &str;
    fn uid(&self) -> &str;
}

impl Json for Value {
    fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(self, |value, segment| match value {
            Value::Array(list) => list.get(segment.parse::<usize>().ok()?),
            other => other.get(segment),
        })
    }

    fn str_at(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or("")
    }

    fn int_at(&self, path: &str) -> Option<i64> {
        self.at(path).and_then(Value::as_i64)
    }

    fn bool_at(&self, path: &str) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    fn list_at(&self, path: &str) -> &[Value] {
        self.at(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or(&[])
    }

    fn map_at(&self, path: &str) -> Option<&Map<String, Value>> {
        self.at(path).and_then(Value::as_object)
    }

    fn at_mut(&mut self, path: &str) -> Option<&mut Value> {
        path.split('.').try_fold(self, |value, segment| match value {
            Value::Array(list) => list.get_mut(segment.parse::<usize>().ok()?),
            other => other.get_mut(segment),
        })
    }

    fn set_at(&mut self, path: &str, value: Value) {
        let mut here = self;
        for segment in path.split('.') {
            if !here.is_object() {
                *here = Value::Object(Map::new());
            }
            here = match here {
                Value::Object(map) => map.entry(segment.to_owned()).or_insert(Value::Null),
                _ => return,
            };
        }
        *here = value;
    }

    fn default_at(&mut self, path: &str, value: Value) {
        if self.at(path).is_none_or(Value::is_null) {
            self.set_at(path, value);
        }
    }

    fn remove_at(&mut self, path: &str) -> Option<Value> {
        match path.rsplit_once('.') {
            Some((parent, last)) => self.at_mut(parent)?.as_object_mut()?.remove(last),
            None => self.as_object_mut()?.remove(path),
        }
    }

    fn name(&self) -> &str {
        self.str_at("metadata.name")
    }

    fn namespace(&self) -> &str {
        self.str_at("metadata.namespace")
    }

    fn uid(&self) -> &str {
        self.str_at("metadata.uid")
    }
}

/// Now, as Kubernetes writes `Time`: whole seconds, UTC.
pub(crate) fn now() -> String {
    time_text(jiff::Timestamp::now())
}

pub(crate) fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Now, as Kubernetes writes `MicroTime`.
pub(crate) fn now_micro() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

pub(crate) fn parse_time(text: &str) -> Option<jiff::Timestamp> {
    text.parse().ok()
}

/// Seconds since `text`, zero when it is unreadable.
pub(crate) fn seconds_since(text: &str) -> i64 {
    parse_time(text).map(|t| jiff::Timestamp::now().as_second() - t.as_second()).unwrap_or(0)
}

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

pub(crate) fn new_uid() -> String {
    let mut b = random_bytes::<16>();
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    let h = hex::encode(b);
    format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
}

/// The alphabet of generated names: no vowels, so that no words appear, and no look-alikes.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

pub(crate) fn random_suffix() -> String {
    random_bytes::<5>().iter().map(|b| char::from(ALPHABET[*b as usize % ALPHABET.len()])).collect()
}

/// Makes a number into letters that are safe in names, as Kubernetes does with template hashes.
pub(crate) fn safe_encode(number: u32) -> String {
    number.to_string().bytes().map(|b| char::from(ALPHABET[b as usize % ALPHABET.len()])).collect()
}

/// FNV-1a over the canonical text of a value.
pub(crate) fn hash(value: &Value, salt: i64) -> u32 {
    let text = format!("{value}{}", if salt > 0 { salt.to_string() } else { String::new() });
    text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

pub(crate) fn base64_encode(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(crate) fn base64_decode(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

pub(crate) fn base64_url(bytes: &[u8]) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn base64_url_decode(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).ok()
}

/// RFC 1123 label: lower case letters, digits and dashes.
pub(crate) fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|part| part.len() <= 253 && is_dns_label_long(part))
}

fn is_dns_label_long(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
