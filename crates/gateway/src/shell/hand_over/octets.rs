//! State as octets. Numbers are little-endian, octets stand after their length.
//!
//! ```text
//! section:  kind (1) | worker (2) | octets (4 + n)
//! record:   handle (4) | state (4 + n)
//! ```

/// The worker of a section that is of none.
pub const NO_WORKER: u16 = u16::MAX;

/// What a reader of octets has left.
pub struct In<'a>(pub &'a [u8]);

impl<'a> In<'a> {
    /// The next octets.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    /// The next number, of so many octets.
    pub fn number<const N: usize>(&mut self) -> Option<u64> {
        Some(self.take(N)?.iter().rev().fold(0, |sum, octet| sum << 8 | u64::from(*octet)))
    }

    /// The next octets after their length.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.number::<4>()? as usize;
        self.take(len)
    }
}

/// Adds octets after their length.
pub fn put(out: &mut Vec<u8>, octets: &[u8]) {
    out.extend((octets.len() as u32).to_le_bytes()); // far fewer than 4 GiB
    out.extend(octets);
}

/// Adds a section, unless there is nothing in it.
pub fn section(out: &mut Vec<u8>, kind: u8, worker: u16, octets: &[u8]) {
    if !octets.is_empty() {
        out.push(kind);
        out.extend(worker.to_le_bytes());
        put(out, octets);
    }
}

/// What a process says of state that it cannot read.
pub fn garbled() -> String {
    "state that cannot be read".to_owned()
}

/// Shows the kind, the worker and the octets of each section.
///
/// # Errors
/// The first one of `each`; they are no sections.
pub fn each_section(octets: &[u8], mut each: impl FnMut(u8, u16, &[u8]) -> Result<(), String>) -> Result<(), String> {
    let mut input = In(octets);
    while let Some(kind) = input.number::<1>() {
        let (worker, octets) = input.number::<2>().zip(input.text()).ok_or_else(garbled)?;
        each(kind as u8, worker as u16, octets)?;
    }
    Ok(())
}

/// Adds what a handle leads to: `state` adds it to what is there.
pub fn record(out: &mut Vec<u8>, handle: u32, state: impl FnOnce(&mut Vec<u8>)) {
    out.extend(handle.to_le_bytes());
    let at = out.len();
    out.extend([0; 4]);
    state(out);
    let len = (out.len() - at - 4) as u32; // a few KiB at most
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

/// Shows the handle and the state of each record.
///
/// # Errors
/// As [`each_section`].
pub fn each_record(octets: &[u8], mut each: impl FnMut(u32, &[u8]) -> Result<(), String>) -> Result<(), String> {
    let mut input = In(octets);
    while !input.0.is_empty() {
        let (handle, state) = input.number::<4>().zip(input.text()).ok_or_else(garbled)?;
        each(handle as u32, state)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_records_come_as_added() {
        let (mut out, mut records) = (Vec::new(), Vec::new());
        record(&mut records, 7, |out| out.extend(b"seven"));
        record(&mut records, 8, |_| ());
        section(&mut out, b'W', 1, &records);
        section(&mut out, b'T', 0, &[]);
        section(&mut out, b'A', NO_WORKER, b"x");
        let (mut seen, mut handles) = (Vec::new(), Vec::new());
        each_section(&out, |kind, worker, octets| {
            seen.push((kind, worker, octets.len()));
            if kind == b'W' {
                each_record(octets, |handle, state| {
                    handles.push((handle, state.to_vec()));
                    Ok(())
                })?;
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(b'W', 1, records.len()), (b'A', NO_WORKER, 1)]);
        assert_eq!(handles, [(7, b"seven".to_vec()), (8, Vec::new())]);
        assert!(each_section(&out[..out.len() - 1], |_, _, _| Ok(())).is_err());
    }
}
