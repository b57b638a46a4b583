//! Both halves over real sockets, with something real behind them.

mod carried;
mod cut;
mod dialled;
mod far;
mod fuzzed;
mod grpc;
mod long;
mod relayed;
mod same;
mod soak;
mod support;
mod wire;
