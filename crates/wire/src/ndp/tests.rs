use super::*;
use proptest::prelude::*;

const US: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn target() -> Ipv6Addr {
    "2001:db8::1234".parse().unwrap()
}

#[test]
fn a_neighbour_solicitation_both_ways() {
    let mut bytes = [0; 32];
    bytes[0] = 135;
    bytes[8..24].copy_from_slice(&target().octets());
    bytes[24..].copy_from_slice(&[1, 1, 2, 0, 0, 0, 0, 1]);
    let repr = Repr::NeighbourSolicit { target: target(), source: Some(US) };
    assert_eq!(Repr::parse(&bytes), Ok(repr));
    let mut out = [0xee; 32];
    assert_eq!(repr.emit(&mut out), Ok(32));
    assert_eq!(out, bytes);
    assert_eq!(repr.emit(&mut out[..31]), Err(NoRoom));
    assert_eq!(solicited_node(target()), "ff02::1:ff00:1234".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn a_router_advertisement_is_laid_out_as_the_standard_says() {
    let prefix = Prefix {
        prefix: "2001:db8:1::".parse().unwrap(),
        len: 64,
        flags: prefix_flag::AUTONOMOUS,
        valid: 0xffff_ffff,
        preferred: 3600,
    };
    let repr = Repr::RouterAdvert {
        hop_limit: 64,
        flags: router_flag::OTHER,
        lifetime: 1800,
        reachable: 0,
        retransmit: 1000,
        source: None,
        mtu: Some(1400),
        prefix: Some(prefix),
    };
    let mut out = [0xee; 56];
    assert_eq!(repr.emit(&mut out), Ok(56));
    assert_eq!(out[..24], [134, 0, 0, 0, 64, 0x40, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 3, 0xe8, 5, 1, 0, 0, 0, 0, 5, 0x78]);
    assert_eq!(out[24..40], [3, 4, 64, 0x40, 255, 255, 255, 255, 0, 0, 0x0e, 0x10, 0, 0, 0, 0]);
    assert_eq!(out[40..48], [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0]);
    assert_eq!(Repr::parse(&out), Ok(repr));
}

#[test]
fn options_that_lie_are_refused() {
    let mut bytes = [0; 16];
    (bytes[0], bytes[8], bytes[9]) = (133, 1, 1);
    bytes[10..].copy_from_slice(&US.0);
    assert_eq!(Repr::parse(&bytes), Ok(Repr::RouterSolicit { source: Some(US) }));
    assert_eq!(Repr::parse(&bytes[..15]), Err(Malformed::BadOption));
    assert_eq!(Repr::parse(&bytes[..9]), Err(Malformed::BadOption));
    assert_eq!(Repr::parse(&bytes[..7]), Err(Malformed::Short));
    assert_eq!(Repr::parse(&[]), Err(Malformed::Short));
    bytes[9] = 0;
    assert_eq!(Repr::parse(&bytes), Err(Malformed::BadOption));
    (bytes[9], bytes[1]) = (1, 1);
    assert_eq!(Repr::parse(&bytes), Err(Malformed::BadType));
    (bytes[0], bytes[1]) = (137, 0);
    assert_eq!(Repr::parse(&bytes), Err(Malformed::BadType));
}

#[test]
fn a_multicast_target_is_refused() {
    let mut bytes = [0; 24];
    let target = "ff02::1".parse().unwrap();
    Repr::NeighbourAdvert { flags: 0, target, address: None }.emit(&mut bytes).unwrap();
    assert_eq!(Repr::parse(&bytes), Err(Malformed::BadType));
}

fn mac() -> impl Strategy<Value = Option<Mac>> {
    prop::option::of(any::<[u8; 6]>().prop_map(Mac))
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (any::<u128>(), 0..=128u8, any::<u8>(), any::<u32>(), any::<u32>()).prop_map(
        |(prefix, len, flags, valid, preferred)| Prefix { prefix: prefix.into(), len, flags, valid, preferred },
    )
}

fn message() -> impl Strategy<Value = Repr> {
    let target = || any::<u128>().prop_map(|t| Ipv6Addr::from(t & (!0 >> 1))); // never multicast
    prop_oneof![
        mac().prop_map(|source| Repr::RouterSolicit { source }),
        (any::<(u8, u8, u16, u32, u32)>(), mac(), any::<Option<u32>>(), prop::option::of(prefix())).prop_map(
            |((hop_limit, flags, lifetime, reachable, retransmit), source, mtu, prefix)| Repr::RouterAdvert {
                hop_limit,
                flags,
                lifetime,
                reachable,
                retransmit,
                source,
                mtu,
                prefix
            }
        ),
        (target(), mac()).prop_map(|(target, source)| Repr::NeighbourSolicit { target, source }),
        (any::<u8>(), target(), mac()).prop_map(|(flags, target, address)| Repr::NeighbourAdvert {
            flags,
            target,
            address
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(repr in message()) {
        let mut out = [0xee; 64];
        let len = repr.emit(&mut out).unwrap();
        prop_assert_eq!(len, repr.message_len());
        prop_assert_eq!(Repr::parse(&out[..len]), Ok(repr));
    }

    #[test]
    fn no_bytes_panic(kind in 130u8..140, mut bytes in prop::collection::vec(0u8..6, 0..80)) {
        if let Some(b) = bytes.get_mut(0) { *b = kind; }
        let _ = Repr::parse(&bytes);
    }
}
