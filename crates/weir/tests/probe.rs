//! `weir probe` and `weir agent` as processes: in namespaces, with a token bucket of the kernel's as judge. Needs root.

mod net;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use certificate::{Band, Certificate, GatewayRate, Key};
use net::{Net, Running, WEIR, json, ok, until, user_plane, well, within};

/// Rate, burst and limit of the queueing discipline `tbf`.
const RATE: f64 = 2.5e6;
const BURST: f64 = 10e6;

fn secret(net: &Net) -> String {
    let file = net.file("secret");
    fs::write(&file, "a secret of this test\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file.display().to_string()
}

/// Looks for burst credit against an agent in the gateway's namespace.
fn probed(net: &Net, what: &str) -> Certificate {
    let (secret, key) = (secret(net), net.file("key"));
    let mut agent = within(&net.gateway, WEIR);
    agent.args(["agent", "10.0.4.1:4780", "--secret", &secret]);
    let agent = Running::start(agent, &net.file("agent.err"));
    until("an agent that listens", || {
        fs::read_to_string(net.file("agent.err")).unwrap().contains("listens on").then_some(())
    });
    let mut probe = within(&net.host, WEIR);
    probe.args("probe burst --agent 10.0.4.1:4780 --minutes 0.5 --json".split(' ')).args(what.split(' '));
    let out = probe.args(["--secret", &secret, "--key"]).arg(&key).output().unwrap();
    assert!(out.status.success(), "the agent said: {}", fs::read_to_string(net.file("agent.err")).unwrap());
    agent.stop();
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Silence of an agent that was killed is no limit of the network.
#[test]
fn an_agent_that_is_gone_is_no_limit() {
    let net = Net::new("gone");
    let (secret, key) = (secret(&net), net.file("key"));
    let mut agent = within(&net.gateway, WEIR);
    agent.args(["agent", "10.0.4.1:4780", "--secret", &secret]);
    let mut agent = Running::start(agent, &net.file("agent.err"));
    until("an agent that listens", || {
        fs::read_to_string(net.file("agent.err")).unwrap().contains("listens on").then_some(())
    });
    let mut probe = within(&net.host, WEIR);
    probe.args("probe burst --agent 10.0.4.1:4780 --minutes 1 --direction in --unit packets --json".split(' '));
    probe.args(["--peak", "1Mbps", "--secret", &secret, "--key"]).arg(&key).stdout(Stdio::null());
    let probe = probe.stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    agent.kill();
    let out = probe.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(1) && said.contains("closed the connection"), "{said}");
}

/// What the host receives, in packets: of 60 bytes, of which the kernel's bucket lets 4,000 a second through once 40,000
/// are used.
#[test]
fn burst_credit_of_received_packets_is_found() {
    let net = Net::new("burstin");
    let bucket = format!("rate {}bit burst {} limit 6000", 4000 * 60 * 8, 40_000 * 60);
    ok(&format!("ip netns exec {} tc qdisc add dev eth2 root tbf {bucket}", net.gateway));
    // 16,000 packets of 60 bytes a second.
    let found = probed(&net, "--direction in --unit packets --peak 7.68Mbps");
    let one = &found.allowances[0];
    let said = format!("{:?}", certificate::Allowance { samples: vec![], ..one.clone() });
    let is_near = |found: f64, truth: f64, part: f64| (found / truth - 1.0).abs() < part;
    assert!(is_near(one.baseline_per_second, 4e3, 0.1) && is_near(one.peak_per_second, 16e3, 0.15), "{said}");
    assert!(is_near(one.depth.unwrap(), 40e3, 0.25) && !one.is_lower_bound, "{said}");
    assert_eq!((one.direction, one.unit), (certificate::Direction::In, certificate::BurstUnit::Packets));
}

/// What is wrong with what was found of the bucket; none: nothing is.
fn differs(one: &certificate::Allowance) -> Option<String> {
    let is_near = |found: f64, truth: f64, part: f64| (found / truth - 1.0).abs() < part;
    // The peak is that of the sender, which a busy machine keeps from its 10 MB a second.
    let is_found = is_near(one.baseline_per_second, RATE, 0.1)
        && (1.5 * RATE..11.5e6).contains(&one.peak_per_second)
        && is_near(one.depth.unwrap_or(0.0), BURST, 0.25)
        && is_near(one.refill_per_second.unwrap_or(0.0), RATE, 0.4)
        && !one.is_lower_bound;
    (!is_found).then(|| format!("{:?}", certificate::Allowance { samples: vec![], ..one.clone() }))
}

#[test]
fn burst_credit_of_a_kernel_bucket_is_found() {
    let net = Net::new("burst");
    // What the host sends: 2.5 MB/s once 10 MB are used; a queue of four packets, so that what is over it is dropped.
    let bucket = format!("rate {}bit burst {BURST} limit 6000", RATE * 8.0);
    ok(&format!("ip netns exec {} tc qdisc add dev smf0 root tbf {bucket}", net.host));
    let found = probed(&net, "--direction out --unit bytes --peak 80Mbps");
    assert_eq!(differs(&found.allowances[0]), None);
    assert!(found.run.is_complete && !found.signature.is_empty(), "{:?}", found.notes);
}

#[test]
fn an_interrupted_probe_writes_what_there_is() {
    let folder = std::env::temp_dir().join(format!("weir-probe-int-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (file, page) = (folder.join("certificate.json"), folder.join("page.html"));
    let mut probe = Command::new(WEIR);
    probe.args(["probe", "quick", "--minutes", "2", "--key"]).arg(folder.join("key")).arg("-o").arg(&page);
    probe.arg("--json").arg(&file).stdout(Stdio::null());
    let said = folder.join("said");
    let running = probe.stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
    until("the fourth step", || fs::read_to_string(&said).unwrap().contains("step 4 of").then_some(()));
    let (begun, pid) = (Instant::now(), running.id());
    ok(&format!("kill -INT {pid}"));
    let out = running.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?} after Ctrl-C, beside other tests", begun.elapsed());
    let text = fs::read_to_string(&said).unwrap();
    assert!(out.status.code() == Some(1) && text.contains("incomplete") && text.contains("left"), "{text}");
    let checked = certificate::check(&fs::read_to_string(&file).unwrap(), None).unwrap();
    assert!(!checked.certificate.run.is_complete && !checked.certificate.generator.is_empty());
    assert!(fs::read_to_string(page).unwrap().contains("incomplete"));
    let ours = format!("weir-bench-{pid}-");
    let left = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(&ours)));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_gateway_shows_headroom_of_its_certificate() {
    let net = Net::new("headroom");
    let own = GatewayRate {
        gateway: "upf".into(),
        profile: "upf-128".into(),
        workers: 1,
        subscribers: 1000,
        frame_bytes_mean: 128.0,
        received_bytes_mean: 128.0,
        mpps: Band::of(&[0.8]).unwrap(),
        cycles_per_packet: 3000.0,
        packets_per_burst: 20.0,
    };
    let signed = Key::from_seed([9; 32]).sign(&Certificate {
        gateways: vec![own],
        run: certificate::Run { is_complete: true, ..certificate::Run::default() },
        ..Certificate::default()
    });
    let file = net.file("certificate.json");
    fs::write(&file, signed.text()).unwrap();
    let section =
        format!("[certificate]\nfile = {:?}\ntrust = \"{}\"\n", file.display().to_string(), signed.public_key);
    let gateway = net.start(&(user_plane() + &section));
    let show = || {
        let mut show = within(&net.gateway, WEIR);
        show.args(["show", "run", "--json", "--socket"]).arg(net.file("weir.sock"));
        json(&well(show.output().unwrap()))
    };
    let view = until("a second look", || Some(show()["headroom"].clone()).filter(|view| view.is_object()));
    assert_eq!(view["headroom_ratio"].as_f64().map(|ratio| ratio > 0.99), Some(true), "{view}");
    assert_eq!((view["certified_mpps"].as_f64(), view["alarms"].as_array().map(Vec::len)), (Some(0.8), Some(0)));
    let mut text = within(&net.gateway, WEIR);
    text.args(["show", "run", "--socket"]).arg(net.file("weir.sock"));
    let text = String::from_utf8(well(text.output().unwrap()).stdout).unwrap();
    assert!(text.contains("headroom 100 % · offered 0.000 of 0.800 Mpps certified"), "{text}");
    gateway.stop();
    fs::write(&file, signed.text().replace("upf-128", "upf-embb")).unwrap();
    let mut refused = within(&net.gateway, WEIR);
    refused.arg("run").arg(net.file("upf.toml")).arg("--socket").arg(net.file("weir.sock"));
    let out = refused.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(2) && said.contains("[certificate] file") && said.contains("`gateways` differs"),
        "{said}"
    );
}
