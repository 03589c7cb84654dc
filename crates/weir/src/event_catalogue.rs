//! Every event there is. `docs/events.md` is this table; tests hold it, this and the sources against each other.

use gateway::log::Level::{self, Error, Info, Warn};

/// A kind of event: its name, subsystem, level, what has happened, and what an operator does about it.
pub struct Known(pub &'static str, pub &'static str, pub Level, pub &'static str, pub &'static str);

/// By subsystem, in the order of a run.
#[rustfmt::skip]
pub const EVENTS: &[Known] = &[
    Known("start", "process", Info, "The process begins to start.", ""),
    Known("config_warning", "process", Warn, "The configuration is valid, but unsafe or unusual.", "Read `key` and the message; change the key."),
    Known("listening", "process", Info, "An HTTP listener is open.", ""),
    Known("ready", "process", Info, "Sessions are in place and workers carry packets.", ""),
    Known("confined", "process", Info, "No thread has a capability; what the process may open and call is limited.", ""),
    Known("not_confined", "process", Warn, "`[process] confine = false`: the process keeps the privileges it was started with.", "Take it out, except to find a fault."),
    Known("landlock_missing", "process", Warn, "The kernel does not limit which files the gateway may open.", "Linux 5.13 or newer with Landlock."),
    Known("dpdk_threads_limited_less", "process", Warn, "Threads of DPDK keep the user and the files of the start; they have no capability, and their system calls are filtered.", "Start as a user of its own where that matters."),
    Known("helper_gone", "process", Error, "The privileged helper has ended; the process stops.", "Start it again; report it."),
    Known("control_stalled", "process", Warn, "The control thread has made no turn for a second: PFCP and neighbours wait.", "Look at the load of the host and at `weir show peers`."),
    Known("control_back", "process", Info, "The control thread makes turns again.", ""),
    Known("drain_begin", "process", Info, "New sessions are refused from now on; `/readyz` answers 503.", ""),
    Known("drained", "process", Info, "No session is left; the process can be stopped without loss.", "Stop it."),
    Known("drain_end", "process", Info, "New sessions are taken again.", ""),
    Known("log_levels_changed", "process", Info, "`weir log set` changed levels.", ""),
    Known("config_reloaded", "process", Info, "The configuration was read again: `applied` changes are in use, `restart` changes wait for a restart; `changes` tells each.", "Restart in time if `restart` is not 0."),
    Known("config_refused", "process", Error, "The configuration was read again and refused as a whole: nothing has changed.", "Correct what `error` names; try with `weir reload --check`."),
    Known("log_lines_lost", "process", Warn, "stderr did not take lines in time.", "Read the rest with `weir show log`; look at what reads stderr."),
    Known("events_suppressed", "process", Warn, "A kind of event came too fast; this many were not written.", "Look at the events of that kind."),
    Known("panic", "process", Error, "A defect: a thread panicked. In a stage it costs one burst of packets.", "Report it, with `location` and message."),
    Known("take_over_begin", "process", Info, "Another process takes over; packets are forwarded meanwhile.", ""),
    Known("take_over_refused", "process", Warn, "Another process asked to take over and does not fit, or something cannot be handed over: nothing has changed.", "Correct what the message names, or restart."),
    Known("take_over_failed", "process", Warn, "The process that was taking over failed: this one goes on as it was.", "Look at that process's messages; try again."),
    Known("take_over_done", "process", Info, "Another process has taken over; this one ends.", ""),
    Known("counters_not_written", "process", Warn, "After a take-over the final counters could not be written; the process ended all the same.", "Look at the file or pipe of `--json`."),
    Known("certificate_alarm", "process", Warn, "The gateway does not do what its capacity certificate says: `reason` is `undelivered`, `cycles` or `allowance`.", "`undelivered`: look at `weir show drops` and ports. `cycles`: compare `weir show run` with the machine's certificate. `allowance`: the cloud limits this instance."),
    Known("certificate_alarm_over", "process", Info, "It does so again.", ""),
    Known("stopping", "process", Info, "The process was told to stop.", ""),
    Known("stopped", "process", Info, "The process has stopped; what became of packets and packet buffers.", "`packets_missing` or `packet_buffers_missing` other than 0 is a defect: report it."),
    Known("worker_stalled", "worker", Warn, "A worker has made no turn for 250 ms: its packets wait or are lost.", "`state=waiting_for_cpu`: give it a CPU of its own. Else report it."),
    Known("worker_back", "worker", Info, "The worker makes turns again.", ""),
    Known("worker_lost", "worker", Error, "A worker has no thread any more after a failed take-over.", "Restart; look at the limit of threads."),
    Known("worker_crashed", "worker", Error, "A worker ended by itself; the process stops.", "Report it, with the `panic` event before it."),
    Known("pool_nearly_full", "worker", Warn, "A pool or table is 90 % full.", "Enlarge it, or add a gateway."),
    Known("pool_relieved", "worker", Info, "The pool or table is below 80 % again.", ""),
    Known("group_moved", "worker", Info, "A subscriber group is another worker's now; `pause_us` is how long the first of its packets waited meanwhile, `held` how many did.", ""),
    Known("group_not_moved", "worker", Warn, "A subscriber group stays on its worker: the other one could not install its subscribers; `why` tells the reason.", "No memory: give the host more, or move a smaller group. A line or an address that is another's: correct the subscriber."),
    Known("group_incomplete", "worker", Error, "A subscriber group has moved, but `missing` of its subscribers are not installed on the new worker: they are not served, and what they have used is lost.", "Clear these subscribers, or start the gateway again, and report it."),
    Known("group_moved_to_process", "worker", Info, "A subscriber group is another process's now; `pause_us` is how long its packets waited meanwhile.", ""),
    Known("group_not_moved_to_process", "worker", Warn, "A subscriber group stays in this process; `why` tells the reason.", "See the reason, and the log of the other process."),
    Known("group_not_back", "worker", Error, "A subscriber group that could not move to another process has not come back to its worker either: nobody serves it.", "Start this process again: the group is its own, with all leases. Report it."),
    Known("group_came", "worker", Info, "A subscriber group is this process's now: another process has handed it over.", ""),
    Known("group_did_not_come", "worker", Warn, "Another process was about to hand a subscriber group over, and has it still; `why` tells the reason.", "See the reason, and the log of the other process."),
    Known("group_not_begun", "worker", Error, "A subscriber group is this process's now, but its worker does not carry its packets, or not all of its counters have come; `why` tells the reason.", "Start this process again: the group is its own, with all leases. Report it."),
    Known("group_owner_not_known", "worker", Error, "The folder of `[moves]` cannot be read while a group comes: its packets wait until it can be.", "Look at the error, and at the disk."),
    Known("group_owner_not_synced", "worker", Warn, "A subscriber group is another process's now, but the folder of `[moves]` could not be brought to the disk: a crash of the host may undo it.", "Look at the error, and at the disk."),
    Known("group_passed_on_no_more", "worker", Info, "Packets of a group that still come here are dropped from now on (`group_elsewhere`): the process that has the group has ended.", ""),
    Known("groups_rearranged", "worker", Info, "Groups move together onto fewer workers, or back, as `[park]` says; `why` tells the reason.", ""),
    Known("ports_not_steered", "worker", Warn, "Ports go on to give packets by the groups' owners of before, and workers hand them over: the kernel has refused the program, or there are more slices than it can hold.", "Look at the error; give groups fewer, larger slices of addresses."),
    Known("ports_change_late", "worker", Warn, "A worker has not answered in time while ports begin to give a group's packets to another one: some may be out of order.", "The worker is overloaded, or gets no CPU: `weir show run`."),
    Known("port_open", "port", Info, "A port is open.", ""),
    Known("flow_rules_refused", "port", Warn, "The device of a `dpdk:` port was asked to lead each worker's packets to its queue, and does not: `why`.", "Workers hand packets over. Look at what the NIC's driver offers (`rte_flow`), its firmware or profile, and how many rules it takes."),
    Known("queues_not_served", "port", Warn, "An interface receives on more queues than the gateway has AF_XDP ports for: what its device puts into the others goes to the host, and no counter of the gateway has it.", "`ethtool -L INTERFACE combined N`, as many as there are ports on it; or `queue={worker}` and as many workers; nothing, if another process has the others."),
    Known("port_on_other_node", "port", Warn, "A port's device is at another NUMA node than the CPU of its worker: packets cross the link between the nodes.", "Give the worker a CPU of the device's node (`workers.cpus`)."),
    Known("host_interface_open", "port", Info, "The host interface beside a port is there for routing daemons.", ""),
    Known("host_interface_shared", "port", Warn, "The host interface beside a port is in the gateway's own network namespace.", "Name one in a namespace of its own (`host_interface = \"routing/core0\"`), unless the gateway's namespace has nothing but routing daemons."),
    Known("host_interface_gone", "port", Error, "The host interface beside a port was removed: routing daemons are cut off, and their routes go.", "Start the gateway again; find out who removed it."),
    Known("routes_learnt", "port", Info, "The number of routes in use from routing daemons has changed.", ""),
    Known("routes_refused", "port", Warn, "Routes of routing daemons are not taken: their next hop is not on the port's link, or there are more than 65,536.", "`weir show routes` counts them; filter them in the daemon."),
    Known("prefixes_announced", "port", Info, "Routes to what the gateway serves were added to the kernel's table, or removed.", ""),
    Known("host_routes_failed", "port", Warn, "Routes are not exchanged with the kernel; tried again each second, reported once.", "Look at the error: the interface or its namespace may be gone."),
    Known("link_up", "port", Info, "A port's link is up again.", ""),
    Known("link_down", "port", Warn, "A port has no link.", "Look at the cable, the switch, the peer."),
    Known("interface_gone", "port", Error, "A port's interface does not exist any more.", "Make it again; the port takes it up."),
    Known("hardware_address_changed", "port", Warn, "An interface has come back with another hardware address; it is used and announced.", "Expected when the device was replaced; else find out what changed it."),
    Known("next_hop_silent", "port", Warn, "A next hop did not answer address resolution before packets were let in.", "Look at the next hop and the link."),
    Known("locked_memory_limited", "port", Warn, "An AF_XDP port may not be opened again when its interface is removed.", "Raise `LimitMEMLOCK=` or `ulimit -l`, or grant CAP_IPC_LOCK."),
    Known("port_errors", "port", Warn, "A port loses packets; reported once until it has lost none for ten seconds.", "`weir show ports` shows each counter."),
    Known("port_errors_over", "port", Info, "The port has lost no packet for ten seconds.", ""),
    Known("refused_not_counted", "port", Info, "What devices do not take of packets that the kernel forwards to them is not counted; `ip -s link` shows it.", "Look at the reason: a kernel without BTF (`/sys/kernel/btf/vmlinux`), or a gateway that was started without CAP_PERFMON."),
    Known("receive_not_moderated", "port", Info, "Packets that are forwarded in the kernel never wait for others: at 50,000 a second and more each costs up to twice as much.", "Look at the reason: an administrator's `gro_flush_timeout`, another network namespace, `/sys` that cannot be written."),
    Known("n4_allow_not_set", "n4", Warn, "`n4.allow` is not set: any address that reaches N4 may set up an association.", "Name your control planes' networks in `n4.allow`."),
    Known("no_kernel_filter", "n4", Warn, "The kernel does not filter N4 by `n4.allow`; weir does.", "Look at the error; strangers' datagrams cost more until then."),
    Known("no_socket_division", "n4", Warn, "The kernel does not divide N4's sockets: control planes share them with strangers.", "Look at the error."),
    Known("control_path_missing", "n4", Warn, "Packets for control planes have no path: they are dropped.", "Free UDP port 2152 at the N4 address, or name an access port in `n4.cp_port`."),
    Known("network_instance_unknown", "n4", Warn, "A control plane names a network instance that no port is in.", "Correct it there, or give a port that `instance`."),
    Known("ie_ignored", "n4", Info, "A control plane sent an optional information element whose feature is not advertised; reported once for each.", ""),
    Known("sessions_restored", "n4", Info, "Sessions and associations of the run before are in place.", "`lost` other than 0: the configuration has changed, or their control plane is unknown."),
    Known("association_up", "n4", Info, "A control plane has associated.", ""),
    Known("association_setup_refused", "n4", Warn, "An Association Setup was refused.", "Look at `n4.allow`, `[[n4.peer]]` and the limits of associations."),
    Known("association_taken_over", "n4", Warn, "A control plane has set up its association from another address, after the old one did not answer.", "Find out whether that control plane has moved."),
    Known("association_takeover_refused", "n4", Warn, "An association setup used the Node ID of another peer that still answers: it was refused.", "Find out who sends it."),
    Known("association_release_refused", "n4", Warn, "A release from another than the control plane itself was refused.", "Find out who sends it."),
    Known("restart_not_confirmed", "n4", Warn, "A later Recovery Time Stamp was not confirmed by our own heartbeat: nothing has changed.", "Find out who sends it."),
    Known("association_lost", "n4", Warn, "A control plane does not answer heartbeats; its sessions are kept for now.", "Look at the control plane and the path to it."),
    Known("association_back", "n4", Info, "A lost control plane answers again; its sessions are as they were.", ""),
    Known("association_not_allowed", "n4", Warn, "`n4.allow` and `n4.peer`, read again, no longer have a control plane's address: it is asked for release, and gets no new session.", "Nothing if it was meant; else put the address back and reload: association and sessions stay."),
    Known("association_over", "n4", Info, "An association is over; its sessions end.", ""),
    Known("path_failed", "gtpu", Warn, "A GTP-U peer does not answer Echo Requests; control planes are told.", "Look at the peer and the path to it."),
    Known("path_recovered", "gtpu", Info, "A GTP-U peer answers again.", ""),
    Known("nat_log_failed", "nat", Error, "The NAT log cannot be written; no new blocks are allocated until it can.", "Look at the disk and the file's permissions."),
    Known("nat_log_written", "nat", Info, "The NAT log can be written again.", ""),
    Known("nat_log_sync_failed", "nat", Error, "The disk did not take what was written to the NAT log: a power cut may cost lines.", "Look at the disk."),
    Known("commit_slow", "ledger", Warn, "A commit took 250 ms or more: answers to control planes wait for it.", "Look at the disk: `iostat -x 1`."),
    Known("commit_fast", "ledger", Info, "Commits take less than 250 ms again.", ""),
    Known("write_failed", "ledger", Error, "The ledger accepts no more writes; sessions are refused with cause 77.", "Do what the message says, then start again."),
    Known("disk_full", "ledger", Error, "The ledger's disk is full; sessions are refused with cause 77.", "Make room, then start again."),
    Known("repaired", "ledger", Warn, "The ledger was not closed properly and has been repaired.", ""),
    Known("ledger_set_aside", "ledger", Error, "The ledger was damaged: it was renamed, and an empty one begun.", "`weir ledger check` and `salvage` with the file in `aside`; look at the disk."),
    Known("ledger_not_open", "ledger", Error, "After a take-over the ledger does not open: control planes or DHCP clients are not answered until it does.", "Look at the error and the disk; stop the gateway if it stays."),
    Known("lease_dropped", "sessions", Warn, "A stored lease is not taken over: no group has its address any more.", "Give the address back to a group's slices before the next start, or ignore it."),
    Known("leases_elsewhere", "sessions", Warn, "Leases of the ledger are erased: their group is another process's, as the folder of `[moves]` or `active` says.", "None, if the group has moved. Else see docs/groups.md before `control_socket` is changed."),
    Known("lease_unreadable", "sessions", Warn, "A stored lease is not readable.", "`weir ledger check`; look at the disk."),
    Known("usage_not_kept", "sessions", Error, "The gateway ended without having written what some sessions had used.", "Look at the ledger's disk; their usage since the last interim report is lost."),
    Known("leases_not_stored", "sessions", Error, "The ledger takes no more leases: new clients are not answered.", "Do what the message says, then start again."),
    Known("not_installed", "sessions", Warn, "A worker did not take the subscriber of a lease.", "Report it, with the configuration."),
    Known("radius_dead", "sessions", Warn, "A RADIUS server does not answer; the next one is asked.", "Look at the server and the path to it."),
    Known("radius_alive", "sessions", Info, "A RADIUS server answers again.", ""),
    Known("dhcp_server_silent", "sessions", Warn, "A DHCP server of the core has left requests without a reply; with `order = \"first\"` the next one is asked.", "Look at the server, the path to it, and its way back to the relay agent's address; `weir show dhcp`."),
    Known("dhcp_server_answers", "sessions", Info, "A DHCP server of the core replies again.", ""),
    Known("report_malformed", "sessions", Warn, "An accounting report cannot be written and is dropped.", "Look at the Class attributes that the RADIUS server sends."),
    Known("wall_clock_set", "sessions", Info, "The wall clock was set; leases and reports go on by a clock of their own, stored leases follow it.", ""),
    Known("standing_by", "standby", Info, "A standby listens to the active gateway.", ""),
    Known("standby_connected", "standby", Info, "A standby listens to this gateway.", ""),
    Known("standby_lost", "standby", Warn, "The standby is gone: no process would take over.", "Start one."),
    Known("fence_impossible", "standby", Warn, "The standby cannot end a hanging active gateway.", "Run both in one PID namespace."),
    Known("taking_over", "standby", Warn, "The standby takes over.", "Find out what became of the active gateway; start a new standby."),
    Known("handed_over", "standby", Info, "This gateway handed everything over to its standby.", ""),
];

fn table() -> String {
    let row = |Known(event, target, level, meaning, action): &Known| {
        format!("| `{event}` | {target} | {} | {meaning} | {action} |\n", level.as_str())
    };
    let head = "| event | target | level | meaning | what to do |\n|---|---|---|---|---|\n";
    head.to_owned() + &EVENTS.iter().map(row).collect::<String>()
}

fn root() -> std::path::PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../..").into()
}

#[test]
fn the_documentation_is_the_catalogue() {
    let path = root().join("docs/events.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("<!-- events -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->\n").unwrap();
    let wanted = format!("{before}<!-- events -->\n{}<!-- end -->\n{after}", table());
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    assert!(text == wanted, "docs/events.md is not the catalogue: run this test with WEIR_WRITE_DOCS=1");
}

/// What sources emit: names, with the target if it stands before the name.
fn emitted(text: &str) -> Vec<(Option<&str>, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("event = \"") {
        let before = &rest[rest.floor_char_boundary(at.saturating_sub(60))..at];
        let target = before.rsplit_once("target: \"").and_then(|(_, target)| target.split('"').next());
        let target = target.filter(|_| !before.rsplit_once("target: \"").is_some_and(|(_, after)| after.contains(';')));
        rest = &rest[at + "event = \"".len()..];
        found.push((target, rest.split('"').next().unwrap_or_default()));
    }
    found
}

#[test]
fn every_event_is_in_the_catalogue() {
    let (mut folders, mut seen) = (vec![root().join("crates")], std::collections::BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if path.is_dir() && name != "tests" && name != "target" {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "event_catalogue.rs" {
                let text = std::fs::read_to_string(&path).unwrap();
                let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                for (target, event) in emitted(shipped) {
                    seen.insert(event.to_owned(), (target.map(str::to_owned), path.clone()));
                }
            }
        }
    }
    for (event, (target, path)) in &seen {
        let known = EVENTS.iter().find(|known| known.0 == event);
        let known = known.unwrap_or_else(|| panic!("{event} of {} is not in the catalogue", path.display()));
        assert!(target.as_deref().is_none_or(|target| target == known.1), "{event}: {target:?}, not {}", known.1);
    }
}

#[test]
fn names_are_unique_and_targets_exist() {
    for (n, known) in EVENTS.iter().enumerate() {
        let of_gateways = crate::GATEWAYS.0.iter().flat_map(|entry| entry.log_targets);
        assert!(
            dataplane::config::LOG_TARGETS.iter().chain(of_gateways).any(|target| *target == known.1),
            "{}",
            known.1
        );
        assert!(EVENTS[..n].iter().all(|other| other.0 != known.0), "{} twice", known.0);
        assert!(known.3.ends_with('.') && (known.4.is_empty() || known.4.ends_with('.')), "{}", known.0);
        assert!(known.2 == Level::Info || !known.4.is_empty() || known.0 == "repaired", "{}: what to do?", known.0);
    }
}
