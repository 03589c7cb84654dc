//! Whether packets that arrived are what they should be: out of the tunnel on N6, in the UE's own tunnel on N3.

use traffic::{Direction, Plan, Signature};

use super::sink::Sample;
use super::traffic::QFI;

/// Ethernet header.
const ETHERNET: usize = 14;
/// IPv4 and UDP headers.
const IP_UDP: usize = 28;

/// What was found in samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Packets looked at: uplink, downlink.
    pub checked: [u64; 2],
    /// What was wrong with the first few that were wrong.
    pub wrong: Vec<String>,
}

impl Verified {
    /// Looks at samples of packets that a user plane has carried.
    pub fn add(&mut self, samples: &[Sample], plan: &Plan) {
        for sample in samples {
            match check(&sample.head, plan) {
                Ok(direction) => self.checked[direction.index()] += 1,
                Err(wrong) if self.wrong.len() < 5 => self.wrong.push(wrong),
                Err(_) => {}
            }
        }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

fn check(frame: &[u8], plan: &Plan) -> Result<Direction, String> {
    let plain = frame.get(ETHERNET + IP_UDP..).and_then(Signature::read);
    match plain {
        Some(mark) if mark.direction == Direction::Uplink => uplink(frame, &mark, plan).map(|()| Direction::Uplink),
        Some(_) => Err("a downlink packet arrived without a tunnel".into()),
        None => downlink(frame, plan).map(|()| Direction::Downlink),
    }
}

fn uplink(frame: &[u8], mark: &Signature, plan: &Plan) -> Result<(), String> {
    let parties = plan.parties(mark.flow).ok_or("a flow that was not sent")?;
    let (from, wanted) = (be32(frame, ETHERNET + 12), plan.profile().ue4(parties.ue).to_bits());
    same("source address", from, wanted)
}

fn downlink(frame: &[u8], plan: &Plan) -> Result<(), String> {
    let gtp = ETHERNET + IP_UDP;
    if be16(frame, ETHERNET + 22) != Some(wire::gtpu::PORT) {
        return Err("a packet that is neither the load's nor GTP-U".into());
    }
    let flags = frame.get(gtp).copied().unwrap_or(0);
    let has_container = flags & 0x04 != 0;
    let inner = gtp + if has_container { 16 } else { 8 };
    let mark = frame.get(inner + IP_UDP..).and_then(Signature::read).ok_or("no signature in the tunnel")?;
    if mark.direction != Direction::Downlink {
        return Err("an uplink packet arrived in a tunnel".into());
    }
    let parties = plan.parties(mark.flow).ok_or("a flow that was not sent")?;
    let profile = plan.profile();
    same("TEID", be32(frame, gtp + 4), profile.teid(Direction::Downlink, parties.ue, 0))?;
    same("UE address", be32(frame, inner + 16), profile.ue4(parties.ue).to_bits())?;
    if let std::net::IpAddr::V4(gnb) = profile.gnb(profile.gnb_of(parties.ue)) {
        same("gNB address", be32(frame, ETHERNET + 16), gnb.to_bits())?;
    }
    let qfi = frame.get(gtp + 14).map(|octet| octet & 0x3f);
    if !has_container || qfi != Some(QFI) {
        return Err(format!("QFI {qfi:?} in the tunnel (container: {has_container}), wanted {QFI}"));
    }
    Ok(())
}

fn same(what: &str, found: Option<u32>, wanted: u32) -> Result<(), String> {
    if found == Some(wanted) {
        return Ok(());
    }
    Err(format!("{what} {:#x}, wanted {wanted:#x}", found.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::options::{Flow, RealOptions};
    use crate::real::traffic::{Of, plan};
    use traffic::Generator;

    /// The first uplink frame of a plan.
    fn frame(plan: &std::sync::Arc<Plan>, direction: Direction) -> Vec<u8> {
        let mut generator = Generator::new(plan, direction).expect("a generator");
        let mut space = vec![0; 256];
        let len = generator.next(&mut space, 7).expect("room");
        space.truncate(len);
        space
    }

    #[test]
    fn packets_are_told_right_from_wrong() {
        let options = RealOptions { sessions: 3, ..RealOptions::new("weir".into()) };
        let plan = plan(&options, Of::Cells, Flow::Mixed).expect("a plan");
        // What has only lost its tunnel is right on N6.
        let tunnelled = frame(&plan, Direction::Uplink);
        let tunnel = plan.profile().tunnel_bytes();
        let mut decapsulated = tunnelled[..ETHERNET].to_vec();
        decapsulated.extend(&tunnelled[ETHERNET + tunnel..]);
        assert_eq!(check(&decapsulated, &plan), Ok(Direction::Uplink));
        decapsulated[ETHERNET + 15] ^= 1;
        assert!(check(&decapsulated, &plan).expect_err("spoilt").contains("source address"));
        let said = |frame: &[u8]| check(frame, &plan).expect_err("wrong");
        assert!(said(&tunnelled).contains("uplink packet arrived in a tunnel"));
        assert!(said(&frame(&plan, Direction::Downlink)).contains("without a tunnel"));
        let mut verified = Verified::default();
        verified.add(&[Sample { head: [0; super::super::sink::HEAD] }], &plan);
        assert_eq!((verified.checked, verified.wrong.len()), ([0, 0], 1));
    }
}
