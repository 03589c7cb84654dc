//! Reads the captures in `tests/captures/pfcp`.
#![allow(dead_code)] // several test programs use different parts

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Where they are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/pfcp")
}

/// A PFCP datagram of a capture.
pub struct Seen {
    /// The capture's name and the frame's number.
    pub name: String,
    /// Who sent it.
    pub from: Ipv4Addr,
    /// To whom.
    pub to: Ipv4Addr,
    /// The message.
    pub octets: Vec<u8>,
}

/// All PFCP datagrams of all captures, with the capture's name and the frame's number.
pub fn datagrams() -> impl Iterator<Item = (String, Vec<u8>)> {
    seen().map(|seen| (seen.name, seen.octets))
}

/// All PFCP datagrams of all captures.
pub fn seen() -> impl Iterator<Item = Seen> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()).expect("captures").map(|entry| entry.expect("entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "pcap"));
    files.sort();
    files.into_iter().flat_map(|file| {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut fragments = Vec::new();
        let numbered = frames(&fs::read(&file).expect("readable")).into_iter().enumerate();
        let found = numbered.filter_map(|(i, (network, frame))| {
            let ip = whole(frame.get(network..)?, &mut fragments)?;
            let address = |at: usize| Some(Ipv4Addr::from(*ip.get(at..)?.first_chunk()?));
            let (from, to) = (address(12)?, address(16)?);
            Some(Seen { name: format!("{name}, frame {}", i + 1), from, to, octets: pfcp_in(&ip)? })
        });
        found.collect::<Vec<_>>()
    })
}

/// An IPv4 packet, put together when its last fragment is here. In the captures fragments come in order.
fn whole(ip: &[u8], fragments: &mut Vec<u8>) -> Option<Vec<u8>> {
    let first = ip.first().filter(|first| *first >> 4 == 4)?;
    let (header, payload) = ip.split_at_checked(usize::from(first & 0x0f) * 4)?;
    let flags_and_offset = u16::from_be_bytes([header[6], header[7]]);
    let (more, offset) = (flags_and_offset & 0x2000 != 0, usize::from(flags_and_offset & 0x1fff) * 8);
    if offset == 0 {
        *fragments = header.to_vec();
    }
    assert_eq!(fragments.len(), header.len() + offset, "fragments come in order");
    let len = usize::from(u16::from_be_bytes([header[2], header[3]])) - header.len();
    fragments.extend(&payload[..len]);
    (!more).then(|| std::mem::take(fragments))
}

/// Frames of a capture file (classic pcap, little-endian) with the offset of the network header.
fn frames(file: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 octets"));
    assert_eq!(word(0), 0xa1b2_c3d4, "a classic capture, little-endian, microseconds");
    let network = match word(20) {
        1 => 14,
        276 => 20,
        other => panic!("link type {other}"),
    };
    let mut frames = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let len = word(at + 8) as usize;
        frames.push((network, file[at + 16..at + 16 + len].to_vec()));
        at += 16 + len;
    }
    frames
}

/// The payload of an IPv4 and UDP packet from or to PFCP's port.
fn pfcp_in(ip: &[u8]) -> Option<Vec<u8>> {
    let udp = ip.get(usize::from(ip.first()? & 0x0f) * 4..)?;
    let port = |at: usize| Some(u16::from_be_bytes([*udp.get(at)?, *udp.get(at + 1)?]));
    let is_pfcp = ip[9] == 17 && (port(0)? == pfcp::PORT || port(2)? == pfcp::PORT);
    udp.get(8..usize::from(port(4)?)).filter(|_| is_pfcp).map(<[u8]>::to_vec)
}

/// Types of IEs that consist of IEs.
const GROUPS: &[u16] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 51, 54, 58, 59, 68, 77, 78, 79, 80, 83, 85, 86, 87,
    99, 102, 105, 118, 127, 128, 129, 130, 147, 183, 187, 233, 252, 256, 272, 290, 315,
];

/// A message with its IEs in order of type, those of the same type in the order they came: order means nothing else
/// (7.1). IEs in `longer` lose their zeros at the end.
pub fn canonical(message: &[u8], longer: &[(u16, &str)]) -> Vec<u8> {
    let ies = if message[0] & 1 != 0 { 16 } else { 8 };
    let mut out = message[..ies].to_vec();
    // The length follows from the rest.
    out[2..4].fill(0);
    out.extend(canonical_ies(&message[ies..], longer));
    out
}

fn canonical_ies(mut ies: &[u8], longer: &[(u16, &str)]) -> Vec<u8> {
    let mut found = Vec::new();
    while !ies.is_empty() {
        let number = |at: usize| u16::from_be_bytes([ies[at], ies[at + 1]]);
        let (ie, len) = (number(0), usize::from(number(2)));
        let mut content = ies[4..4 + len].to_vec();
        if GROUPS.contains(&ie) {
            content = canonical_ies(&content, longer);
        }
        while longer.iter().any(|(longer, _)| *longer == ie) && content.last() == Some(&0) {
            content.pop();
        }
        found.push((ie, content));
        ies = &ies[4 + len..];
    }
    found.sort_by_key(|(ie, _)| *ie);
    let octets = found.into_iter().flat_map(|(ie, content)| {
        let len = content.len() as u16;
        [&ie.to_be_bytes()[..], &len.to_be_bytes()[..], &content].concat()
    });
    octets.collect()
}
