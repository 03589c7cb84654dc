//! The sessions a control plane brought up, as `weir cp --sessions-out` wrote them. Their tunnels are whatever was chosen;
//! who they belong to must follow a formula, as traffic does: consecutive addresses, gNBs in turn.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use traffic::{Profile, Teids};

use cpsim::Line;
use cpsim::nth;
use gateway::fail::Usage;

/// Has the traffic go through the sessions in a file.
///
/// # Errors
/// No such file, or sessions that do not follow from each other.
pub fn read(path: &Path, profile: &mut Profile) -> anyhow::Result<()> {
    let wrong = |what: String| Usage(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().enumerate().map(|(n, line)| {
        serde_json::from_str(line).map_err(|error| wrong(format!("line {} is no session: {error}", n + 1)))
    });
    let lines = lines.collect::<Result<Vec<Line>, _>>()?;
    Ok(apply(lines, profile).map_err(wrong)?)
}

fn apply(mut lines: Vec<Line>, profile: &mut Profile) -> Result<(), String> {
    lines.sort_by_key(|line| line.ue);
    lines.dedup_by_key(|line| line.ue);
    let first = lines.first().ok_or("there are no sessions in it")?;
    let (Some(ue_first), Some(gnb_first), Some(upf)) = (first.ue_ip4, first.gnb, first.upf) else {
        return Err("the first session has no IPv4 address, no gNB or no tunnel".to_owned());
    };
    let gnbs = lines.iter().skip(1).position(|line| line.gnb == Some(gnb_first)).map_or(lines.len(), |n| n + 1);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for (n, line) in (0..).zip(&lines) {
        let address = Ipv4Addr::from_bits(ue_first.to_bits().wrapping_add(n));
        let gnb: IpAddr = nth(gnb_first, n % gnbs as u32); // no more than there are sessions
        if (line.ue, line.ue_ip4, line.gnb, line.upf) != (n, Some(address), Some(gnb), Some(upf)) {
            let what = "traffic wants all sessions from number 0 on, of consecutive addresses, at gNBs in turn";
            return Err(format!("session {}: {what}; number {n} would be {address} at {gnb}", line.ue));
        }
        let (Some(uplink), Some(downlink)) = (line.uplink_teid, line.downlink_teid) else {
            return Err(format!("session {n} has no tunnel both ways"));
        };
        // One tunnel a session, whatever its bearers.
        up.extend(std::iter::repeat_n(uplink, profile.bearers.into()));
        down.extend(std::iter::repeat_n(downlink, profile.bearers.into()));
    }
    (profile.ues, profile.ue_first, profile.upf_n3) = (lines.len() as u32, ue_first, upf);
    (profile.gnbs, profile.gnb_first) = (gnbs as u32, gnb_first);
    (profile.uplink_teids, profile.downlink_teids) = (Teids::List(up.into()), Teids::List(down.into()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ue: u32) -> Line {
        Line {
            ue,
            ue_ip4: Some(Ipv4Addr::from_bits(0x0a3c_0001 + ue)),
            ue_ip6: None,
            upf: Some([10, 0, 3, 1].into()),
            uplink_teid: Some(ue.wrapping_mul(0x9e37_79b9)),
            gnb: Some([10, 0, 3, 100 + (ue % 3) as u8].into()),
            downlink_teid: Some(500 - ue),
            up_seid: 0,
        }
    }

    #[test]
    fn tunnels_are_those_of_the_sessions() {
        let mut profile = Profile { bearers: 2, ..Profile::default() };
        apply([4, 0, 2, 1, 3].map(line).to_vec(), &mut profile).unwrap();
        assert_eq!((profile.ues, profile.gnbs, profile.ue_first), (5, 3, Ipv4Addr::new(10, 60, 0, 1)));
        assert_eq!(profile.downlink_teids, Teids::List([500, 500, 499, 499, 498, 498, 497, 497, 496, 496].into()));
    }

    #[test]
    fn a_session_that_is_missing_is_told() {
        let said = |numbers: &[u32]| apply(numbers.iter().copied().map(line).collect(), &mut Profile::default());
        assert!(said(&[]).unwrap_err().contains("no sessions"));
        let gap = said(&[0, 1, 2, 3, 5]).unwrap_err();
        assert!(gap.contains("session 5") && gap.contains("10.60.0.5 at 10.0.3.101"), "{gap}");
        let moved = Line { gnb: Some([10, 0, 3, 101].into()), ..line(3) };
        assert!(apply(vec![line(0), line(1), line(2), moved], &mut Profile::default()).is_err());
    }
}
