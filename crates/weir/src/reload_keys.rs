//! Keys that a reload applies: `docs/reload.md` has the table of the program.

use bng::product::BngGateway;
use cmts::product::CmtsGateway;
use gateway::shell::Gateway;
use gateway::shell::reload::{LIVE, LiveKey};
use upf::product::UpfGateway;

fn table() -> String {
    let rows = |gateway: &str, keys: &[LiveKey]| -> String {
        keys.iter().map(|LiveKey { key, help }| format!("| `{key}` | {gateway} | {help} |\n")).collect()
    };
    let head = "| key | gateway | what happens |\n|---|---|---|\n".to_owned();
    let own = rows(UpfGateway::NAME, UpfGateway::LIVE)
        + &rows(BngGateway::NAME, BngGateway::LIVE)
        + &rows(CmtsGateway::NAME, CmtsGateway::LIVE);
    head + &rows("all", LIVE) + &own
}

#[test]
fn the_documentation_has_the_table_of_the_program() {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reload.md"));
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once("<!-- keys -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->\n").unwrap();
    let wanted = format!("{before}<!-- keys -->\n{}<!-- end -->\n{after}", table());
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert!(text == wanted, "docs/reload.md is not the table: run this test with WEIR_WRITE_DOCS=1");
}
