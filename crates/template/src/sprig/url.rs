//! Addresses taken apart and put together, as net/url does.

use crate::functions::{
    Function,
    Type::{Dict, Text},
    takes, text,
};
use crate::value::Value;

type Done<T> = Result<T, String>;

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("urlParse", &[Text], |s, a| {
        let url = Url::parse(text(&a[0])).map_err(|problem| format!("unable to parse url: {problem}"))?;
        let parts = [
            ("hostname", url.hostname()),
            ("scheme", url.scheme),
            ("host", url.host),
            ("path", url.path),
            ("query", url.query),
            ("opaque", url.opaque),
            ("fragment", url.fragment),
            ("userinfo", url.userinfo.unwrap_or_default()),
        ];
        Ok(s.map_of(parts.map(|(name, value)| (name.to_owned(), value.into()))))
    }),
    takes("urlJoin", &[Dict], |_, a| {
        let Value::Map(map) = &a[0] else { return Ok("".into()) };
        let part = |name: &str| -> Done<String> {
            match map.get(name) {
                None => Ok(String::new()),
                Some(Value::Text(text)) => Ok(text.to_string()),
                Some(other) => Err(format!(
                    "unable to parse {name} key, must be of type string, but {} found",
                    other.kind_name()
                )),
            }
        };
        let userinfo = Some(part("userinfo")?).filter(|info| !info.is_empty());
        let url = Url {
            scheme: part("scheme")?,
            userinfo,
            host: part("host")?,
            path: part("path")?,
            query: part("query")?,
            opaque: part("opaque")?,
            fragment: part("fragment")?,
        };
        Ok(url.text().into())
    }),
];

#[derive(Default)]
struct Url {
    scheme: String,
    /// As it is written, that is: escaped.
    userinfo: Option<String>,
    host: String,
    path: String,
    query: String,
    opaque: String,
    fragment: String,
}

impl Url {
    fn parse(text: &str) -> Done<Self> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(format!("parse {text:?}: net/url: invalid control character in URL"));
        }
        let mut url = Self::default();
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        url.fragment = unescape(fragment)?;
        let mut rest = rest;
        let letter = rest.starts_with(|c: char| c.is_ascii_alphabetic());
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
        match end {
            Some(0) if rest.starts_with(':') => {
                return Err(format!("parse {text:?}: missing protocol scheme"));
            }
            Some(at) if letter && rest[at..].starts_with(':') => {
                url.scheme = rest[..at].to_lowercase();
                rest = &rest[at + 1..];
            }
            _ => {}
        }
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query.to_owned();
        rest = before;
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            let first = rest.split('/').next().unwrap_or_default();
            if first.contains(':') {
                return Err(format!("parse {text:?}: first path segment in URL cannot contain colon"));
            }
        }
        if let Some(after) =
            rest.strip_prefix("//").filter(|after| !url.scheme.is_empty() || !after.starts_with('/'))
        {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            let (userinfo, host) = match authority.rsplit_once('@') {
                Some((userinfo, host)) => (Some(userinfo.to_owned()), host),
                None => (None, authority),
            };
            if let Some((_, port)) = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'))
                && !port.bytes().all(|byte| byte.is_ascii_digit())
            {
                return Err(format!("parse {text:?}: invalid port {:?} after host", format!(":{port}")));
            }
            let odd = |c: &char| {
                c.is_ascii() && !c.is_ascii_alphanumeric() && !"!$&'()*+,;=:[]<>\"-_.~%".contains(*c)
            };
            if let Some(c) = host.chars().find(odd) {
                return Err(format!("parse {text:?}: invalid character {:?} in host name", c.to_string()));
            }
            url.userinfo = userinfo;
            url.host = unescape(host)?;
            rest = path;
        }
        url.path = unescape(rest)?;
        Ok(url)
    }

    fn hostname(&self) -> String {
        if let Some((inner, _)) = self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return inner.to_owned();
        }
        self.host.split_once(':').map_or(self.host.as_str(), |(name, _)| name).to_owned()
    }

    fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if !self.opaque.is_empty() {
            out.push_str(&self.opaque);
        } else {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.userinfo.is_some() {
                if !self.host.is_empty() || !self.path.is_empty() || self.userinfo.is_some() {
                    out.push_str("//");
                }
                if let Some(userinfo) = &self.userinfo {
                    out.push_str(userinfo);
                    out.push('@');
                }
                out.push_str(&escape(&self.host, b"!$&'()*+,;=:[]<>\"-_.~"));
            }
            if !self.path.is_empty() && !self.path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            let path = escape(&self.path, b"$&+,/:;=@-_.~!'()*");
            if out.is_empty() && path.split('/').next().is_some_and(|first| first.contains(':')) {
                out.push_str("./");
            }
            out.push_str(&path);
        }
        if !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&escape(&self.fragment, b"$&+,/:;=?@!()*-_.~"));
        }
        out
    }
}

fn unescape(text: &str) -> Done<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
            let Some(byte) = digits.and_then(|pair| u8::from_str_radix(pair, 16).ok()) else {
                let end = (at + 3).min(text.len());
                return Err(format!("invalid URL escape {:?}", String::from_utf8_lossy(&bytes[at..end])));
            };
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn escape(text: &str, also: &[u8]) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || also.contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
