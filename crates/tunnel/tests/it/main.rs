//! Both halves over real sockets, with something real behind them.

mod carried;
mod cut;
mod dialled;
mod fuzzed;
mod relayed;
mod same;
mod soak;
mod support;
