//! The toy gateway as a program: `toy run examples/toy/toy.toml`.

fn main() -> std::process::ExitCode {
    gateway::cli(const { &[gateway::GatewayEntry::routed::<toy::Toy>()] })
}
