//! A network that holds one listener.

use std::io::{Read, Write};
use std::process::Command;

use slipway_cage::{Cage, Level, Streams};
use slipway_testkit::inside::{Probe, Seen};

#[test]
fn a_private_listener_is_reached_and_nothing_else() {
    let (listener, network) = slipway_cage::private_listener().expect("it can be made");
    let port = listener.local_addr().expect("it has an address").port();
    let answer = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().expect("somebody calls");
        let mut word = [0; 4];
        caller.read_exact(&mut word).expect("they say something");
        caller.write_all(b"pong").expect("they listen");
        word
    });
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf ping >&3; head -c4 <&3");
    let mut command = Command::new("bash");
    command.args(["-c", &script]);
    let child =
        Cage::new().network(network.clone()).spawn(&command, Streams::listening()).expect("it starts");
    assert_eq!(child.wait_with_output().expect("it ends").stdout, b"pong");
    assert_eq!(&answer.join().expect("it was answered"), b"ping");
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "from outside nobody reaches it");

    let probe = Probe::named("tool");
    let command = Command::new(probe.path());
    let child = Cage::new().network(network).spawn(&command, Streams::listening()).expect("it starts");
    let seen = Seen::in_output(&child.wait_with_output().expect("it ends").stdout);
    seen.assert_caged().assert_own_user();
    assert_ne!(seen.number("loopback"), 0, "{}", seen.0);
    assert_ne!(seen.number("udp"), 0, "{}", seen.0);
    assert_eq!(seen.number("interfaces_with_address"), 1, "lo alone: {}", seen.0);
}

#[test]
fn weaker_levels_have_no_socket_without_a_network() {
    let probe = Probe::named("tool");
    for level in [Level::UserNamespace, Level::Landlock] {
        let command = Command::new(probe.path());
        let child = Cage::new().at(level).spawn(&command, Streams::listening()).expect("it starts");
        Seen::in_output(&child.wait_with_output().expect("it ends").stdout).assert_no_network();
    }
}
