//! A real Linux host behind two VLAN tags talks through a broadband gateway to a host of the core, in every mode of input
//! and output. See `tests/net/bng.py` for the picture.

use std::process::Command;

fn run(script: &str, args: &[&str]) {
    let path = format!("{}/../../tests/net/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("python3")
        .args([&path, env!("CARGO_BIN_EXE_weir")])
        .args(args)
        .output()
        .expect("python3 runs: `make setup` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{args:?}:\n{said}");
    assert!(output.status.success(), "{args:?}:\n{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn subscriber_behind_qinq_talks_through_every_mode() {
    for (mode, tpid) in
        [("plain", "0x88a8"), ("mmsg", "0x8100"), ("ring", "0x88a8"), ("slots", "0x8100"), ("xdp", "0x88a8")]
    {
        run("bng.py", &[mode, tpid]);
    }
}

/// Debian's udhcpc and dhclient: see `tests/net/bng_sessions.py` for the picture.
#[test]
fn dhcp_clients_get_leases_and_talk() {
    run("bng_sessions.py", &["dhcp"]);
}

/// The kernel's own SLAAC.
#[test]
fn kernel_makes_an_address_of_the_prefix() {
    run("bng_sessions.py", &["slaac"]);
}

/// FreeRADIUS and its radclient.
#[test]
fn radius_server_decides_and_is_told() {
    run("bng_sessions.py", &["radius"]);
}

/// `weir reload` with a real client: a new access list, a slice that is refused and one that is added.
#[test]
fn reload_changes_rules_and_keeps_leases() {
    run("bng_sessions.py", &["reload"]);
}

/// Linux's TCP fills a shaped tier; pings marked as voice pass its queue.
#[test]
fn tcp_has_the_rate_of_a_shaped_tier() {
    run("bng_sessions.py", &["shape"]);
}

/// Linux's TCP through address translation, with its log.
#[test]
fn subscribers_share_a_public_address() {
    run("bng_sessions.py", &["nat"]);
}

/// curl in a walled garden, and FreeRADIUS's radclient that lets it out and in.
#[test]
fn walled_garden_leads_to_the_portal() {
    run("bng_sessions.py", &["garden"]);
}

/// Kea's DHCPv4 server in the core, the gateway as relay agent: udhcpc gets, renews and releases a lease; tshark reads what
/// Kea has seen. See `tests/net/bng_relay.py` for the picture.
#[test]
fn kea_leases_to_udhcpc_by_the_relay_agent() {
    run("bng_relay.py", &["dhcp4"]);
}

/// Kea's DHCPv6 server: dhclient gets, renews and releases an address and a delegated prefix.
#[test]
fn kea_delegates_prefixes_by_the_relay_agent() {
    run("bng_relay.py", &["dhcp6"]);
}

/// kill -9, three times: subscribers of relayed leases talk on without a DHCP message, and renew.
#[test]
fn relayed_leases_survive_a_crash() {
    run("bng_relay.py", &["crash"]);
}

/// perfdhcp, each of its 2,000 clients on a line of its own.
#[test]
fn perfdhcp_completes_every_exchange_by_the_relay_agent() {
    run("bng_relay.py", &["load"]);
}

/// Servers that give addresses they should not, strangers that answer, a storm of one line.
#[test]
fn relay_agent_takes_no_lease_it_should_not() {
    run("bng_relay.py", &["hostile"]);
}

/// The first of two servers is silent, and comes back.
#[test]
fn second_dhcp_server_takes_over() {
    run("bng_relay.py", &["failover"]);
}

/// FreeRADIUS decides before a request is relayed, and is told of what Kea has leased.
#[test]
fn radius_decides_before_a_request_is_relayed() {
    run("bng_relay.py", &["radius"]);
}

/// `weir reload` from the gateway's own leases to those of Kea, and back.
#[test]
fn reload_turns_relay_on_and_off() {
    run("bng_relay.py", &["reload"]);
}

/// `weir gen broadband` through two workers, while its group of 8,200 moves twenty times.
#[test]
fn group_moves_between_workers_without_loss() {
    run("bng_moves.py", &[]);
}

/// A group of 2,200 moves six times to and fro between two processes of one machine, whose ports are in the same bridges.
#[test]
fn group_moves_between_processes_without_loss() {
    run("bng_crossing.py", &["load"]);
}

/// The same between processes of two workers each.
#[test]
fn group_moves_between_processes_of_two_workers() {
    run("bng_crossing.py", &["load", "200", "4000", "4", "2000", "2"]);
}

/// A move that fails at its last step under traffic, six times: the group comes back with what waited.
#[test]
fn group_whose_move_fails_comes_back_without_loss() {
    run("bng_crossing.py", &["stays"]);
}

/// The group's prefixes are announced by the process that has it, and its gateway answers there only.
#[test]
fn prefixes_are_announced_where_the_group_is() {
    run("bng_crossing.py", &["routes", "1", "1", "1", "0", "1"]);
}

/// Packets that wait in a subscriber's queue go along, and leave in order.
#[test]
fn queued_packets_go_where_the_group_goes() {
    run("bng_crossing.py", &["queue", "1", "1", "1", "0", "1"]);
}

/// Either process is killed at some moment of a move, twelve times.
#[test]
fn killed_process_leaves_a_group_one_owner() {
    run("bng_crossing.py", &["crash", "50", "100", "12", "500", "1"]);
}

/// FreeRADIUS sees one session, udhcpc renews with the other process.
#[test]
fn accounting_goes_on_where_the_group_is() {
    run("bng_crossing.py", &["radius", "1", "1", "1", "0", "1"]);
}

#[test]
fn group_that_cannot_move_to_a_process_stays() {
    run("bng_crossing.py", &["refused", "1", "1", "1", "20", "1"]);
}

/// The same with ports that give packets to whoever owns their group: `fanout=subscriber`.
#[test]
fn ports_follow_a_group_that_moves() {
    // Few flows at a high rate: what overtakes is seen.
    run("bng_moves.py", &["8", "8000", "20", "8000", "subscriber"]);
}

/// `weir gen broadband` while three processes take over from one another: see `tests/net/bng_take_over.py` for the picture.
#[test]
fn nothing_is_lost_when_processes_take_over() {
    run("bng_take_over.py", &["load"]);
}

/// The same over AF_XDP ports, and with subscribers in the kernel.
#[test]
fn af_xdp_ports_and_the_in_kernel_path_are_taken_over() {
    for case in ["xdp", "fast"] {
        run("bng_take_over.py", &[case]);
    }
}

/// The same of two workers, which hand packets over to each other, and whose ports follow a group that has moved.
#[test]
fn several_workers_are_taken_over() {
    for fanout in ["hash", "subscriber"] {
        run("bng_take_over.py", &["load", "200", "4000", "2000", "2", "2", fanout]);
    }
}

/// FreeRADIUS is away while two processes take over, and udhcpc renews.
#[test]
fn accounting_goes_on_in_the_new_process() {
    run("bng_take_over.py", &["radius"]);
}

/// A shaped tier whose queue is full.
#[test]
fn queued_packets_go_to_the_new_process() {
    run("bng_take_over.py", &["queue"]);
}

/// Linux's TCP through address translation.
#[test]
fn translated_connection_outlives_the_process() {
    run("bng_take_over.py", &["nat"]);
}

/// Other configurations, and new processes that are killed on their way.
#[test]
fn take_over_that_fails_changes_nothing() {
    run("bng_take_over.py", &["refused"]);
}

/// FreeRADIUS has one start and one stop of every session, whenever the gateway was killed: see `tests/net/bng_accounting.py`.
#[test]
fn accounting_outlives_kills() {
    run("bng_accounting.py", &["6"]);
}

#[test]
fn nobody_is_renumbered_after_a_crash() {
    run("bng_sessions.py", &["crash"]);
}

#[test]
fn example_configuration_is_ok() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bng.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["run", "--check", example]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Packets through the kernel: see `tests/net/bng_fast_path.py` and `bng_fast_path_load.py` for the pictures.
#[test]
fn subscribers_talk_through_the_kernel() {
    run("bng_fast_path.py", &[]);
    run("bng_fast_path_load.py", &["5000", "4", "only"]);
}
