//! `weir demo` over real interfaces, small and short: gateway, control plane and traffic as processes, and nothing left behind.

use std::process::{Command, Output, Stdio};

/// Runs it; nothing of it is left.
fn demo(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("demo").args(words.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it runs");
    let id = child.id().to_string();
    let output = child.wait_with_output().expect("it ends");
    let left = Command::new("ip").args(["netns", "list"]).output().expect("ip runs").stdout;
    let left = String::from_utf8_lossy(&left).into_owned();
    assert!(!left.lines().any(|name| name.contains(&format!("-{id}-"))), "{left}");
    assert!(!std::env::temp_dir().join(format!("weir-demo-{id}")).exists());
    output
}

fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    both.concat()
}

#[test]
fn subscribers_of_a_broadband_gateway_come_up_and_talk() {
    let output = demo("--gateway bng --ues 400 --seconds 2 --pps 4000");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for part in [
        "400 with IPv4, 400 with IPv6 and a delegated prefix",
        "each with its line's tags and its subscriber's addresses",
        "400 subscribers: ",
        "VLANs 100.1  100.64.",
        "no packet and no slot is missing",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("wrong tags or addresses") && !said.contains("uncounted"), "{said}");
    let delivered = said.lines().find(|line| line.contains("packets were delivered")).unwrap().to_owned();
    let [received, sent] = [1, 3].map(|word| {
        let word = delivered.split_whitespace().nth(word).unwrap();
        word.replace(',', "").parse::<u64>().unwrap()
    });
    assert!(sent > 6000 && received * 100 >= sent * 95, "{said}");
}

#[test]
fn sessions_of_a_user_plane_come_up_and_talk() {
    let output = demo("--ues 400 --seconds 2 --pps 4000");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for part in ["400 sessions up by PFCP", "no session, no packet and no slot is missing"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_option_without_effect_is_refused() {
    let output = demo("--gateway bng --simulate");
    assert_eq!((output.status.code(), said(&output).contains("--simulate has no effect")), (Some(2), true));
}
