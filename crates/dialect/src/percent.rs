//! Percent-coding, as RFC 3986 has it: what is not unreserved is written as `%XX`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// One segment of a path, or one name or value of a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// A path: its slashes stay.
pub fn encode_path(path: &str) -> String {
    path.split('/').map(encode).collect::<Vec<_>>().join("/")
}

/// Back again. What is no code stays as it is, what is no UTF-8 is replaced.
pub fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        for (text, encoded) in
            [("a b/c", "a%20b%2Fc"), ("ü~._-", "%C3%BC~._-"), ("", ""), ("a+b?", "a%2Bb%3F")]
        {
            assert_eq!(encode(text), encoded);
            assert_eq!(decode(encoded), text);
        }
        assert_eq!(encode_path("a b/c"), "a%20b/c");
        assert_eq!(decode("100% %zz %41"), "100% %zz A");
        assert_eq!(decode("%ff"), "\u{fffd}");
    }
}
