//! Cost per packet of the toy gateway in memory, by stage: `cargo bench -p toy`, `cargo bench -p toy -- --json -`.

#[path = "../tests/workload/mod.rs"]
mod workload;

fn main() -> std::process::ExitCode {
    bench::routed::main(&workload::workload())
}
