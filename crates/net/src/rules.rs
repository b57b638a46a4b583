//! Which addresses may be asked. A value: nothing is resolved here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What may be asked besides public addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Private and loopback addresses too.
    inside: bool,
    hosts: Vec<String>,
    networks: Vec<(IpAddr, u8)>,
}

/// Where clouds serve a machine its own credentials, beside the link-local range.
const METADATA: [IpAddr; 4] = [
    // Amazon over IPv6, Alibaba, Oracle, Azure's wire server.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

impl Rules {
    /// Public addresses, and these: `gitea.internal`, `10.1.2.3`, `10.0.0.0/8`, `fd00::/8`.
    pub fn parse<S: AsRef<str>>(items: &[S]) -> Result<Self, String> {
        let mut rules = Self::default();
        for item in items {
            let item = item.as_ref().trim();
            let (address, bits) =
                item.split_once('/').map_or((item, None), |(address, bits)| (address, Some(bits)));
            match (address.parse::<IpAddr>(), bits) {
                (Ok(address), None) => {
                    rules.networks.push((address, if address.is_ipv4() { 32 } else { 128 }))
                }
                (Ok(address), Some(bits)) => {
                    let most = if address.is_ipv4() { 32 } else { 128 };
                    let bits = bits.parse().ok().filter(|bits| *bits <= most);
                    rules.networks.push((address, bits.ok_or_else(|| format!("`{item}` is not a network"))?));
                }
                (Err(_), None) if !item.is_empty() => rules.hosts.push(item.to_lowercase()),
                _ => return Err(format!("`{item}` is not a host, an address or a network")),
            }
        }
        Ok(rules)
    }

    /// For a process that stands inside of a private network and serves those who are there: everything but the
    /// addresses from which a machine gets its own credentials.
    #[must_use]
    pub fn with_private(mut self) -> Self {
        self.inside = true;
        self
    }

    /// Whether `host`, which means `address`, may be asked.
    pub fn allow(&self, host: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address)
            || (self.inside && !is_machine_room(address))
            || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
            || self.networks.iter().any(|(network, bits)| within(address, *network, *bits))
    }

    /// Whether one of the named networks holds the address, public or not.
    pub fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|(network, bits)| within(address, *network, *bits))
    }
}

fn within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let shift = width - u32::from(bits);
        bits == 0 || (a >> shift) == (b >> shift)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

/// Addresses that mean this machine's own services and nobody's Git host: link-local, metadata, none, many.
fn is_machine_room(address: IpAddr) -> bool {
    let address = address.to_canonical();
    METADATA.contains(&address)
        || address.is_unspecified()
        || address.is_multicast()
        || match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
            // An IPv4 address inside of an IPv6 one is as good as that one.
            IpAddr::V6(v6) => {
                v6.is_unicast_link_local() || carried(v6).is_some_and(|v4| is_machine_room(v4.into()))
            }
        }
}

fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        address if METADATA.contains(&address) => false,
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19)))
}

/// The IPv4 address that a translated (NAT64) or tunnelled (6to4) one stands for.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let pair = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match parts {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, .., high, low] => Some(pair(high, low)),
        [0x2002, high, low, ..] => Some(pair(high, low)),
        // Written without a prefix (deprecated), or behind the one of stateless translation.
        [0, 0, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(pair(high, low)),
        _ => None,
    }
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    // Addresses that carry an IPv4 address inside are as public as that one.
    if parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] || parts[0] == 0x2002 {
        return carried(address).is_some_and(is_public_v4);
    }
    // Global unicast and nothing else: everything that is not given out to the public yet is inside.
    let given_out = (parts[0] & 0xe000) == 0x2000;
    // 2001::/23 is for protocols (Teredo, benchmarking, ORCHID), the others for documentation and segment routing.
    let special = (parts[0] == 0x2001 && (parts[1] < 0x0200 || parts[1] == 0xdb8))
        || (parts[0] == 0x3fff && parts[1] < 0x1000);
    given_out && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_public_is_public() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.31.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("168.63.129.16", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:93.184.216.34", true),
            ("::127.0.0.1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("64:ff9b::7f00:1", false),
            // Every way to write an inside address in IPv6, and every range that nobody was given.
            ("64:ff9b:1::7f00:1", false),
            ("64:ff9b:1:ffff::a00:1", false),
            ("::ffff:0:127.0.0.1", false),
            ("::ffff:0:10.0.0.1", false),
            ("2002:7f00:1::", false),
            ("2001:0:4136:e378:8000:63bf:80ff:fffe", false),
            ("2001:2::1", false),
            ("2001:10::1", false),
            ("3fff::1", false),
            ("5f00::1", false),
            ("100::1", false),
            ("4000::1", false),
            ("2606:2800:220:1:248:1893:25c8:1946", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn what_an_operator_allows_is_allowed_and_no_more() {
        let rules = Rules::parse(&["10.0.0.0/8", "gitea.internal", "fd00::/8", "192.168.1.7"]).unwrap();
        for (host, address, expected) in [
            ("x", "10.255.0.1", true),
            ("x", "11.0.0.1", true),
            ("x", "172.16.0.1", false),
            ("gitea.internal", "172.16.0.1", true),
            ("x", "fd12::1", true),
            ("x", "192.168.1.7", true),
            ("x", "192.168.1.8", false),
        ] {
            assert_eq!(rules.allow(host, address.parse().unwrap()), expected, "{host} {address}");
        }
        assert!(Rules::parse(&["10.0.0.0/33"]).is_err());
    }

    #[test]
    fn inside_of_a_network_all_is_asked_but_the_machine_room() {
        let rules = Rules::default().with_private();
        for (address, expected) in [
            ("93.184.216.34", true),
            ("127.0.0.1", true),
            ("10.1.2.3", true),
            ("fd00::1", true),
            ("::1", true),
            ("169.254.169.254", false),
            ("169.254.170.2", false),
            ("100.100.100.200", false),
            ("192.0.0.192", false),
            ("168.63.129.16", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("febf::1", false),
            ("::ffff:169.254.169.254", false),
            ("::169.254.169.254", false),
            ("::ffff:0:169.254.169.254", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b:1::a9fe:a9fe", false),
            ("2002:a9fe:a9fe::", false),
            ("0.0.0.0", false),
            ("::", false),
            ("224.0.0.1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(rules.allow("x", address.parse().unwrap()), expected, "{address}");
        }
    }
}
