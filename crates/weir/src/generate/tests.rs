use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Parser;
use port::Wires;
use traffic::{Sizes, Teids};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: GenArgs,
}

fn args(line: &str) -> GenArgs {
    Line::try_parse_from(["weir"].into_iter().chain(line.split_whitespace())).unwrap().args
}

fn fails(line: &str) -> String {
    match Line::try_parse_from(["weir"].into_iter().chain(line.split_whitespace())) {
        Err(error) => error.to_string(),
        Ok(line) => options::spec(&line.args).unwrap_err().to_string(),
    }
}

#[test]
fn the_command_line_goes_over_the_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gen.toml");
    let line = format!("{} --pps 7 --ues 5 --sizes imix --uplink-sizes 200 --uplink-teids 0x10+2", file.display());
    let spec = options::spec(&args(&line)).unwrap();
    assert_eq!((spec.pps, spec.profile.ues, spec.seconds), (Some(7.0), 5, 10.0));
    assert_eq!(spec.profile.uplink_sizes, Sizes::Fixed(200));
    assert_eq!(spec.profile.downlink_sizes, Sizes::mix(&[(64, 7), (576, 4), (1400, 1)]));
    assert_eq!(spec.profile.uplink_teids, Teids::Formula { first: 16, per_ue: 2 });
    assert_eq!(spec.slot_bytes(), 2048);
    let spec = options::spec(&args("--n3 memory:a --n6 memory:b --sizes 9000 --qfis")).unwrap();
    assert_eq!((spec.slot_bytes(), spec.profile.qfis.len()), (9512, 0));
}

#[test]
fn quantities_have_units_on_line_and_in_file() {
    let ports = "--n3 memory:a --n6 memory:b";
    let read = args(&format!("{ports} --pps 50kpps --packets 2k --seconds 500ms --sizes 128B --new-flows 10%"));
    let spec = options::spec(&read).unwrap();
    assert_eq!((spec.pps, spec.packets, spec.seconds), (Some(5e4), Some(2000), 0.5));
    assert_eq!((spec.profile.new_flows, spec.profile.uplink_sizes), (0.1, Sizes::Fixed(128)));
    let of = |text: &str| gateway::load::Text { name: "gen.toml".into(), text: text.into() }.parse::<options::Spec>();
    let spec = of("pps = \"50 kpps\"\nseconds = \"1 min\"\nramp = 0.5\npacket_buffers = 64\n").unwrap();
    assert_eq!((spec.pps, spec.seconds, spec.ramp, spec.packet_buffers), (Some(5e4), 60.0, 0.5, 64));
    assert_eq!(of("slots = 64\n").unwrap().packet_buffers, 64);
    assert!(of("seconds = \"soon\"\n").unwrap_err().to_string().contains("\"soon\" is not a duration"));
}

#[test]
fn what_makes_no_sense_is_a_sentence() {
    for (line, said) in [
        ("", "give --n6"),
        ("--n6 memory:b", "give --n3"),
        ("--n3 memory:a --n6 memory:b --ues 0", "`ues` must be at least 1"),
        ("--n3 memory:a --n6 memory:b --pps 0", "--pps"),
        ("--n3 memory:a --n6 memory:b --ratio 5", "as in 1:9"),
        ("--n3 memory:a --n6 memory:b --sizes big", "or imix"),
        ("--n3 memory:a --n6 memory:b --uplink-teids many", "FIRST+STEP"),
        ("--n3 memory:a --n6 memory:b --new-flows 3", "allowed: a share such as 0.01 or 1%"),
    ] {
        let error = fails(line);
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn a_profile_in_a_file_is_pointed_at() {
    let path = std::env::temp_dir().join(format!("weir-gen-{}.toml", std::process::id()));
    std::fs::write(&path, "n3 = \"memory:a\"\nn6 = \"memory:b\"\n[profile]\nservers = 0\n").unwrap();
    let error = options::spec(&GenArgs { file: Some(path.clone()), ..GenArgs::default() }).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    let Some(gateway::load::LoadError::Wrong(wrong)) = error.downcast_ref() else { panic!("{error}") };
    assert_eq!((wrong.line(), wrong.key.as_str()), (4, "profile.servers"));
}

/// Lays what a gateway sends before the generator, and the other way round.
fn cross(wires: &Wires, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let (wires, stop) = (wires.clone(), stop.clone());
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            for (a, b) in [("n3", "g3"), ("g3", "n3"), ("n6", "g6"), ("g6", "n6")] {
                wires.wire(a).received().into_iter().for_each(|packet| wires.wire(b).send(packet));
            }
            std::thread::yield_now();
        }
    })
}

#[test]
fn a_gateway_in_memory_loses_nothing_and_the_report_says_so() {
    let wires = Wires::default();
    let process = crate::shell_tests::gateway(&wires);
    let stop = Arc::new(AtomicBool::new(false));
    let crossing = cross(&wires, &stop);
    let args = args(
        "--n3 memory:g3 --n6 memory:g6 --ues 10 --ue-first 10.60.0.1 --uplink-teids 0x1000000 --downlink-teids \
         0x2000000 --gnbs 1 --gnb-first 10.0.3.100 --upf-n3 10.0.3.1 --packets 400 --pps 4000 --seconds 5 --verify all",
    );
    let spec = options::spec(&args).unwrap();
    let result = drive(&args, spec, &wires, &AtomicBool::new(false), &mut |_| ()).unwrap();
    stop.store(true, Ordering::Relaxed);
    crossing.join().unwrap();
    for direction in [result.directions.uplink, result.directions.downlink] {
        assert_eq!(
            (direction.sent_packets, direction.forwarded_packets, direction.misdelivered_packets),
            (200, 200, 0)
        );
    }
    let text = report::text(&result, Style::default());
    assert!(text.contains("loss 0\n") && text.contains("misdelivered"), "{text}");
    assert_eq!(process.stop().slots_missing, 0);
}
