//! A stream of bytes inside of WebSocket frames (RFC 6455), for proxies that let nothing else through.
//!
//! In: bytes, and frames of the other end, however somebody in between cut them. Out: frames, and bytes. Payloads are copied once each
//! way; nothing is kept while nothing is on its way. Does not know HTTP: the upgrade was answered before.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is written goes out in frames of at most this much, so that a ping never waits long behind one.
const FRAME: usize = 128 << 10;
/// Ours are smaller; more is somebody else's protocol.
const FRAME_LIMIT: u64 = 1 << 20;
/// What is read at once while a head is awaited: all of a short frame.
const AHEAD: usize = 1 << 10;
/// Nothing more is taken over while this much waits to go out.
const FULL: usize = 64 << 10;
/// A buffer that is larger goes with the first piece that did not need it: a ping, at the latest.
const KEPT: usize = 4 << 10;

const BINARY: u8 = 0x2;
const CONTINUED: u8 = 0x0;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const LAST: u8 = 0x80;

/// What comes next from the other end.
#[derive(Clone, Copy)]
enum Reading {
    Head,
    Payload { left: u64, mask: Mask },
    Ended,
}

/// The key of a frame, turned to where its payload goes on. Zero changes nothing.
#[derive(Clone, Copy, Default)]
struct Mask([u8; 4]);

impl Mask {
    fn apply(&mut self, bytes: &mut [u8]) {
        if self.0 == [0; 4] {
            return;
        }
        let twice = u64::from(u32::from_ne_bytes(self.0));
        let wide = twice << 32 | twice;
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            word.copy_from_slice(&(u64::from_ne_bytes(eight) ^ wide).to_ne_bytes());
        }
        let rest = words.into_remainder();
        rest.iter_mut().zip(self.0.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
        self.0.rotate_left(rest.len() % 4);
    }
}

pub struct Framed<IO> {
    io: IO,
    /// The platform's side: it sends without masks and takes nothing without one.
    ours: bool,
    reading: Reading,
    /// Read, and not looked at.
    ahead: Vec<u8>,
    out: Vec<u8>,
    /// Of `out`, what is already gone.
    gone: usize,
    keys: Keys,
    said_goodbye: bool,
}

/// Random keys, some at a time.
struct Keys {
    random: [u8; 64],
    used: usize,
}

impl Keys {
    fn next(&mut self) -> [u8; 4] {
        if self.used == self.random.len() {
            // Only so that nobody in between takes payloads for something else; it guards nothing.
            let _ = getrandom::fill(&mut self.random);
            self.used = 0;
        }
        let mut key = [0; 4];
        key.copy_from_slice(&self.random[self.used..self.used + 4]);
        self.used += 4;
        key
    }
}

fn wrong(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The head of a frame.
struct Head {
    opcode: u8,
    mask: Option<[u8; 4]>,
    payload: u64,
    length: usize,
}

/// None: there is more to come of it.
fn parse(bytes: &[u8]) -> Option<Head> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (payload, at) = match second & 0x7f {
        126 => (u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10),
        short => (u64::from(short), 2),
    };
    let masked = second & LAST != 0;
    let mask = if masked { Some(bytes.get(at..at + 4)?.try_into().ok()?) } else { None };
    // Bits that an extension would have to explain stay in it: it is none that we know then.
    Some(Head { opcode: first & 0x7f, mask, payload, length: at + if masked { 4 } else { 0 } })
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Framed<IO> {
    pub(crate) fn new(io: IO, ours: bool) -> Self {
        let keys = Keys { random: [0; 64], used: 64 };
        Self {
            io,
            ours,
            reading: Reading::Head,
            ahead: Vec::new(),
            out: Vec::new(),
            gone: 0,
            keys,
            said_goodbye: false,
        }
    }

    /// Puts a frame behind what waits to go out.
    fn put(&mut self, opcode: u8, pieces: &[IoSlice<'_>], length: usize) {
        let masked = if self.ours { 0 } else { LAST };
        self.out.reserve(length + 14);
        self.out.push(LAST | opcode);
        match length {
            0..126 => self.out.push(masked | length as u8),
            126..=0xffff => {
                self.out.push(masked | 126);
                self.out.extend((length as u16).to_be_bytes());
            }
            _ => {
                self.out.push(masked | 127);
                self.out.extend((length as u64).to_be_bytes());
            }
        }
        let mut mask = Mask::default();
        if !self.ours {
            mask = Mask(self.keys.next());
            self.out.extend(mask.0);
        }
        let begins = self.out.len();
        let mut left = length;
        for piece in pieces {
            let taken = piece.len().min(left);
            self.out.extend_from_slice(&piece[..taken]);
            left -= taken;
        }
        mask.apply(&mut self.out[begins..]);
    }

    /// Until nothing waits to go out.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.gone < self.out.len() {
            let written = ready!(Pin::new(&mut self.io).poll_write(context, &self.out[self.gone..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gone += written;
        }
        // While much goes out the next piece will want as much.
        if self.gone < KEPT && self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
        self.gone = 0;
        self.out.clear();
        Poll::Ready(Ok(()))
    }

    /// Reads some more to look at; false at the end.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut buffer = [0; AHEAD];
        let mut buffer = ReadBuf::new(&mut buffer);
        ready!(Pin::new(&mut self.io).poll_read(context, &mut buffer))?;
        self.ahead.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(!buffer.filled().is_empty()))
    }

    /// Reads heads, and answers what is not for us to hand on, until there is a payload or the end.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Reading>> {
        loop {
            let Some(head) = parse(&self.ahead) else {
                if ready!(self.poll_ahead(context))? {
                    continue;
                }
                let whole = self.ahead.is_empty();
                return Poll::Ready(if whole {
                    Ok(Reading::Ended)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                });
            };
            if head.mask.is_some() != self.ours {
                return Poll::Ready(Err(wrong("a frame of a tunnel with the mask of the other side")));
            }
            if matches!(head.opcode, BINARY | CONTINUED) {
                if head.payload > FRAME_LIMIT {
                    return Poll::Ready(Err(wrong("a frame of a tunnel is too large")));
                }
                self.ahead.drain(..head.length);
                let mask = Mask(head.mask.unwrap_or_default());
                return Poll::Ready(Ok(Reading::Payload { left: head.payload, mask }));
            }
            if head.payload > 125 || !matches!(head.opcode, CLOSE | PING | PONG) {
                return Poll::Ready(Err(wrong("a frame that no tunnel has")));
            }
            let length = head.length + head.payload as usize;
            if self.ahead.len() < length {
                match ready!(self.poll_ahead(context))? {
                    true => continue,
                    false => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                }
            }
            let mut said: Vec<u8> = self.ahead.drain(..length).skip(head.length).collect();
            Mask(head.mask.unwrap_or_default()).apply(&mut said);
            match head.opcode {
                PING if self.out.len() < FULL => {
                    self.put(PONG, &[IoSlice::new(&said)], said.len());
                    if let Poll::Ready(Err(error)) = self.poll_drain(context) {
                        return Poll::Ready(Err(error));
                    }
                }
                CLOSE => return Poll::Ready(Ok(Reading::Ended)),
                _ => {}
            }
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Framed<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match this.reading {
                Reading::Ended => return Poll::Ready(Ok(())),
                Reading::Head | Reading::Payload { left: 0, .. } => {
                    this.reading = Reading::Head;
                    this.reading = ready!(this.poll_head(context))?;
                }
                Reading::Payload { left, mut mask } => {
                    let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(into.remaining());
                    let room = into.initialize_unfilled_to(wanted);
                    let count = if this.ahead.is_empty() {
                        let mut room = ReadBuf::new(room);
                        ready!(Pin::new(&mut this.io).poll_read(context, &mut room))?;
                        room.filled().len()
                    } else {
                        let count = this.ahead.len().min(wanted);
                        room[..count].copy_from_slice(&this.ahead[..count]);
                        this.ahead.drain(..count);
                        count
                    };
                    if count == 0 && wanted > 0 {
                        return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                    }
                    mask.apply(&mut room[..count]);
                    into.advance(count);
                    this.reading = Reading::Payload { left: left - count as u64, mask };
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Framed<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    /// The head of something and the thing itself are one frame.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.out.len() >= FULL {
            ready!(self.poll_drain(context))?;
        }
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>().min(FRAME);
        if length > 0 {
            self.put(BINARY, pieces, length);
        }
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.said_goodbye, true) {
            self.put(CLOSE, &[], 0);
        }
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
