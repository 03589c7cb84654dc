//! Terms by which ports that steer find a subscriber's packet within GTP-U (3GPP TS 29.281, 5.1 and 5.2.1).

use port::{SteerExtensions, SteerSpec};
use wire::gtpu::{self, message_type};

/// Bytes of a UDP header.
const UDP: u8 = 8;

/// GTP-U: a G-PDU with or without sequence number, N-PDU number and extension headers.
pub const GTPU: SteerSpec = SteerSpec {
    udp_port: gtpu::PORT,
    carries: (UDP + 1, message_type::G_PDU),
    flags: UDP,
    // S, PN or E: the optional fields are there.
    short: (0x07, UDP + 8),
    // E: so is an extension header.
    long: (0x04, UDP + 12),
    extensions: SteerExtensions { first: UDP + 11, most: 3 },
};

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use port::{Look, Steer};

    use super::*;

    fn some() -> Steer {
        let mut steer = Steer::new().within(GTPU);
        let mut give = |first: &str, last: &str, member| {
            steer.give(first.parse().unwrap(), last.parse().unwrap(), member).unwrap();
        };
        give("10.1.0.0", "10.1.255.255", 0);
        give("10.2.0.0", "10.2.255.255", 1);
        give("255.255.255.255", "255.255.255.255", 2);
        give("0.0.0.0", "0.0.0.9", 2);
        give("2001:db8::", "2001:db8:0:ff::", 1);
        give("2001:db8:1::", "2001:db8:1:ff::", 2);
        steer
    }

    /// As it was when the program knew GTP-U itself.
    #[test]
    fn program_is_instruction_for_instruction_the_recorded_one() {
        let mut now = String::new();
        for look in [Look::Auto, Look::Source, Look::Destination] {
            for (name, steer) in [("none", Steer::new().within(GTPU)), ("some", some())] {
                writeln!(now, "{look:?} {name}").unwrap();
                for (code, if_true, if_false, operand) in steer.listing(3, look).unwrap() {
                    writeln!(now, "{code:#04x} {if_true} {if_false} {operand:#x}").unwrap();
                }
            }
        }
        let recorded = include_str!("../tests/steer_program.txt");
        let differs = now.lines().zip(recorded.lines()).position(|(now, then)| now != then);
        assert_eq!((differs, now.lines().count()), (None, recorded.lines().count()));
    }
}
