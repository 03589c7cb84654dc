//! A whole cable gateway under a script of bytes: both far sides send, some packets are changed on the way, some come
//! twice or not at all, modems come and go, keys roll over. `crates/cmts/tests/garbage.rs` includes this file.

use crypto::Key;
use traffic::cable::Cuts;

use super::plant::{World, config};

/// What a script says, a few bytes at a time; zeros when it is over.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, n: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % n.max(1)
    }
}

/// Changes a packet: bytes, length, or nothing but its end.
fn spoil(packet: &mut Vec<u8>, script: &mut Script<'_>) {
    for _ in 0..script.below(4) {
        // What is behind the headers of the network is of more interest than those.
        let from = if script.byte() & 3 == 0 { 0 } else { 34.min(packet.len()) };
        let at = from + script.below((packet.len() - from).min(64));
        if let Some(byte) = packet.get_mut(at) {
            *byte ^= script.byte();
        }
    }
    match script.byte() {
        0..30 => packet.truncate(script.below(packet.len() + 1)),
        30..40 => packet.extend(std::iter::repeat_n(script.byte(), script.below(200))),
        _ => {}
    }
    packet.truncate(1700);
}

/// Runs the script; panics where a promise is broken.
pub fn cmts_pipeline(bytes: &[u8]) {
    let mut script = Script(bytes);
    let (encrypt, seed) = (script.byte() & 1 == 0, script.byte());
    let mut world = World::new(&config(1, 3, encrypt, ""), Cuts::Anywhere(u64::from(seed)));
    let modem = world.control.modem(0).expect("the first").mac;
    let mut room = vec![0; 2048];
    let mut sequence = 0;
    while !script.0.is_empty() {
        let now = world.now();
        match script.byte() {
            0..80 => {
                let packet = world.modems.next(now);
                let mut packet = packet.expect("a packet");
                match script.byte() {
                    0..20 => continue,
                    20..120 => spoil(&mut packet, &mut script),
                    120..140 => world.rig.wire("cin").send(packet.clone()),
                    _ => {}
                }
                world.rig.wire("cin").send(packet);
            }
            80..140 => {
                let len = world.hosts.make(&mut room, now);
                let mut packet = room[..len].to_vec();
                if script.byte() < 128 {
                    spoil(&mut packet, &mut script);
                }
                world.rig.wire("nsi").send(packet);
            }
            140..160 => {
                let mut packet: Vec<u8> = (0..script.below(200)).map(|_| script.byte()).collect();
                spoil(&mut packet, &mut script);
                let port = if script.byte() & 1 == 0 { "cin" } else { "nsi" };
                world.rig.wire(port).send(packet);
            }
            160..240 => {
                let ns = script.below(1 << 16) as u64 * 400;
                world.step(ns);
            }
            240..248 => {
                sequence = (sequence + 1) & 0x0f;
                let key = Key::aes128([script.byte(); 16], [script.byte(); 16]);
                let _ = world.control.set_key(modem, sequence, &key);
                let _ = world.control.use_key(modem, sequence);
            }
            _ => {
                let which = world.control.modem(u32::from(script.byte()) % 3).map(|named| named.mac);
                which.map(|mac| world.control.remove_modem(mac));
            }
        }
    }
    world.rest();
    let held: usize = world.rig.workers().map(|worker| engine::Gateway::held(worker.gateway())).sum();
    assert!(held <= 256, "{held} are held at rest");
    if let Err(why) = world.rig.close() {
        panic!("{why}");
    }
}
