//! What devices do that none of those here does.

use frame::ArenaConfig;

use super::*;

#[test]
fn a_port_whose_device_refuses_interrupts_sleeps_by_time() {
    let arena = Arena::new(ArenaConfig { slots: 1024, ..ArenaConfig::default() }).expect("memory");
    let mut pool = Pool::new(&arena, 1024);
    let uri: Uri = "dpdk:net_null_refuses?ring=64".parse().expect("a URI");
    let mut port = DpdkPort::open(&uri, &mut OpenContext::new(&mut pool)).expect("a port");
    assert!(port.wait_fd().is_none() && port.caps().detail.ends_with(", no interrupts"), "{}", port.caps().detail);
    assert!(port.fall_asleep());
    // Of a queue that the device does not have: it told of one, and refuses now.
    port.interrupt = Some(Interrupt::refused(port.port, 9));
    assert!(port.wait_fd().is_some() && port.service_within().is_some());
    port.caps.detail = format!("{}, interrupts", port.what);
    assert!(!port.fall_asleep(), "the worker looks once more");
    assert!(port.wait_fd().is_none(), "there is nothing to wait on");
    assert_eq!(port.service_within(), None, "the worker's time without descriptors is shorter");
    assert!(port.caps().detail.ends_with(", no interrupts"), "{}", port.caps().detail);
    assert!(port.fall_asleep(), "it sleeps");
    // It goes on receiving.
    let mut batch = Batch::new();
    port.service(&mut pool);
    assert_eq!(port.rx_burst(&mut pool, &mut batch), BURST);
    pool.give_all(&mut batch);
    port.close(&mut pool);
    drop((port, pool));
    assert_eq!(arena.in_depot(), 1024, "every token is back");
}
